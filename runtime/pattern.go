package runtime

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
)

// maxPattern is how long one pattern of a need may be.
const maxPattern = 500

// ParseNeed reads one pattern of ctx.need.
//
//   - read, write: a path, relative to the working folder or absolute. * stands for any
//     characters of one name, ? for one, ** as a whole name for any number of names.
//   - exec: the absolute path of a program and its arguments, split at spaces. * stands for
//     any characters of one argument; as the last word for any further arguments.
//   - http: a host, host:port, *.domain, or * for any. Without a port it is the
//     scheme's own. An address of a private network is only meant by itself.
//   - approve: the name of a tool, * for any characters.
func ParseNeed(kind, pattern string) (Need, error) {
	n := Need{Kind: kind, Text: pattern}
	bad := func(format string, args ...any) (Need, error) {
		return Need{}, fmt.Errorf("%s: %q %s", kind, pattern, fmt.Sprintf(format, args...))
	}
	switch {
	case strings.TrimSpace(pattern) == "":
		return bad("is empty")
	case len(pattern) > maxPattern:
		return Need{}, fmt.Errorf("%s: a pattern of %d characters is too long, at most %d", kind, len(pattern), maxPattern)
	case strings.ContainsFunc(pattern, func(r rune) bool { return !unicode.IsGraphic(r) || r == unicode.ReplacementChar }):
		return bad("holds what cannot be shown")
	}
	var err error
	switch kind {
	case NeedRead, NeedWrite:
		err = n.parsePath()
	case NeedExec:
		err = n.parseExec()
	case NeedHTTP:
		err = n.parseHost()
	case NeedApprove:
		if strings.ContainsAny(pattern, " /()") {
			err = errors.New("is no name of a tool")
		}
	default:
		return Need{}, fmt.Errorf("unknown need %q%s", kind, didYouMean(kind, needKinds))
	}
	if err != nil {
		return bad("%v", err)
	}
	return n, nil
}

func (n *Need) parsePath() error {
	switch {
	case strings.HasPrefix(n.Text, "~"):
		return errors.New("begins with ~, which means nothing here: write the absolute path")
	case strings.ContainsAny(n.Text, `\[]{}`):
		return errors.New(`holds one of \ [ ] { }; patterns have only * ? and **`)
	case strings.HasSuffix(n.Text, "/"):
		return fmt.Errorf("ends in a slash: write %q for all that is below", n.Text+"**")
	}
	n.segments = strings.Split(strings.TrimPrefix(n.Text, "./"), "/")
	for i, s := range n.segments {
		switch {
		case s == "" && i == 0:
		case s == "" || s == "." || s == "..":
			return errors.New("may not contain // nor the names . and .. on its way")
		case strings.Contains(s, "**") && s != "**":
			return errors.New("has ** inside of a name: it stands for whole names")
		}
	}
	return nil
}

// MatchPath says whether a need to read or write covers a path. Both are absolute, clean
// and without links; dir is what relative patterns start from.
func (n Need) MatchPath(dir, path string) bool {
	if n.segments == nil {
		return false
	}
	if n.segments[0] == "" {
		return matchSegments(n.segments, strings.Split(filepath.ToSlash(path), "/"))
	}
	rel, err := filepath.Rel(dir, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return false
	}
	if rel == "." {
		return matchSegments(n.segments, nil)
	}
	return matchSegments(n.segments, strings.Split(filepath.ToSlash(rel), "/"))
}

// matchSegments matches name by name. Only the last ** has to be tried again, so it takes
// no more than the product of both lengths.
func matchSegments(pattern, names []string) bool {
	p, s, star, mark := 0, 0, -1, 0
	for s < len(names) {
		switch {
		case p < len(pattern) && pattern[p] == "**":
			star, mark = p, s
			p++
		case p < len(pattern) && wild(pattern[p], names[s]):
			p++
			s++
		case star >= 0:
			mark++
			p, s = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}

// wild matches * for any characters and, in the same way, ? for one.
func wild(pattern, text string) bool {
	pr, tr := []rune(pattern), []rune(text)
	p, s, star, mark := 0, 0, -1, 0
	for s < len(tr) {
		switch {
		case p < len(pr) && pr[p] == '*':
			star, mark = p, s
			p++
		case p < len(pr) && (pr[p] == '?' || pr[p] == tr[s]):
			p++
			s++
		case star >= 0:
			mark++
			p, s = star+1, mark
		default:
			return false
		}
	}
	for p < len(pr) && pr[p] == '*' {
		p++
	}
	return p == len(pr)
}

func (n *Need) parseExec() error {
	if strings.ContainsAny(n.Text, "\"'`\\;|&<>$()") {
		return errors.New("holds a character of shells: there is none, the words are split at spaces")
	}
	words := strings.Fields(n.Text)
	n.program, n.words = words[0], words[1:]
	if !filepath.IsAbs(n.program) || filepath.Clean(n.program) != n.program {
		return errors.New("must begin with the absolute path of a program")
	}
	if strings.ContainsAny(n.program, "*?") {
		return errors.New("must name one program: * is for arguments")
	}
	n.Text = strings.Join(words, " ")
	n.real = n.program
	if real, err := filepath.EvalSymlinks(n.program); err == nil && real != n.program {
		n.real = real
		n.Text += " (" + real + ")"
	}
	return nil
}

// MatchExec says whether a need to run a program covers it with these arguments. program
// is as the script names it, real where its links lead to now: both must be those of the
// declaration, since a program of many names does by each something else.
func (n Need) MatchExec(program, real string, args []string) bool {
	if n.Kind != NeedExec || real != n.real || program != n.program {
		return false
	}
	for i, w := range n.words {
		switch {
		case w == "*" && i == len(n.words)-1:
			return true
		case i >= len(args) || !matchWord(w, args[i]):
			return false
		}
	}
	return len(args) == len(n.words)
}

// matchWord is wild in which ? is only itself: it is common in arguments.
func matchWord(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(text, first) || !strings.HasSuffix(text[len(first):], last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(text, p)
		if i < 0 {
			return false
		}
		text = text[i+len(p):]
	}
	return true
}

func (n *Need) parseHost() error {
	host := strings.ToLower(n.Text)
	if strings.Contains(host, "://") || strings.ContainsAny(host, "/@ ?#") {
		return errors.New("is not a host: write api.example.com, without scheme or path")
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 && (strings.HasSuffix(host[:i], "]") || !strings.Contains(host[:i], ":")) {
		n.port = host[i+1:]
		if p, err := strconv.Atoi(n.port); err != nil || p < 1 || p > 65535 || strconv.Itoa(p) != n.port {
			return fmt.Errorf("has no port behind its colon")
		}
		host = host[:i]
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	n.Text = strings.ToLower(n.Text)
	if addr, err := netip.ParseAddr(host); err == nil {
		n.words = []string{addr.Unmap().String()}
		return nil
	}
	name, sub := strings.CutPrefix(host, "*.")
	switch {
	case host == "*":
	case strings.Contains(name, "*"):
		return errors.New("has * in the middle: it may only be the first part, as in *.example.com")
	case sub && !strings.Contains(name, "."):
		return errors.New("covers a whole top-level domain: name a domain, or * for any host")
	case strings.ContainsAny(name, ":[]%\\_") || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, ".."):
		return errors.New("is not a host")
	}
	n.words = []string{host}
	return nil
}

// MatchHost says whether a need of http covers a host, which is a name in small letters or
// an address, on a port; standard is the port of the scheme.
func (n Need) MatchHost(host, port, standard string) bool {
	if n.Kind != NeedHTTP || n.port != port && (n.port != "" || port != standard) {
		return false
	}
	want := n.words[0]
	if domain, ok := strings.CutPrefix(want, "*."); ok {
		return strings.HasSuffix(host, "."+domain)
	}
	return want == "*" || want == host
}

// Names says whether a need of http means this very host or address, and not a pattern
// that covers it.
func (n Need) Names(host string) bool { return n.Kind == NeedHTTP && n.words[0] == host }

// MatchName says whether a need to approve covers a tool.
func (n Need) MatchName(tool string) bool { return n.Kind == NeedApprove && wild(n.Text, tool) }
