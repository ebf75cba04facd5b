package render

import (
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// struck is text between pairs of tildes. Only a page uses it.
type struck struct{ ast.BaseInline }

var kindStruck = ast.NewNodeKind("Struck")

// Kind implements ast.Node.
func (*struck) Kind() ast.NodeKind { return kindStruck }

// Dump implements ast.Node.
func (s *struck) Dump(source []byte, level int) { ast.DumpHelper(s, source, level, nil, nil) }

// strikes parses struck text. It has no state.
type strikes struct{}

// Trigger implements parser.InlineParser.
func (strikes) Trigger() []byte { return []byte{'~'} }

// Parse implements parser.InlineParser.
func (s strikes) Parse(_ ast.Node, block text.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, seg := block.PeekLine()
	d := parser.ScanDelimiter(line, before, 2, s)
	if d == nil || d.OriginalLength != 2 || before == '~' {
		return nil
	}
	d.Segment = seg.WithStop(seg.Start + d.OriginalLength)
	block.Advance(d.OriginalLength)
	pc.PushDelimiter(d)
	return d
}

// IsDelimiter implements parser.DelimiterProcessor.
func (strikes) IsDelimiter(b byte) bool { return b == '~' }

// CanOpenCloser implements parser.DelimiterProcessor.
func (strikes) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	return opener.Char == closer.Char
}

// OnMatch implements parser.DelimiterProcessor.
func (strikes) OnMatch(int) ast.Node { return &struck{} }
