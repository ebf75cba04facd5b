package reload

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// point is an entry of a directory that a path depends on: when it changes, the path may
// lead elsewhere. dir has no links in it. Immutable.
type point struct{ dir, name string }

func (p point) path() string { return filepath.Join(p.dir, p.name) }

// trace follows an absolute path as the system does, component by component. It gives
// the path without links, and the points whose change may turn it elsewhere: every link
// on the way, the last tail components, and where the way breaks off what is missing
// there. The error is that of the component at which it broke off.
func trace(path string, tail int) (real string, points []point, err error) {
	vol := filepath.VolumeName(path)
	top := vol + string(filepath.Separator)
	cur, rest := top, components(path[len(vol):])
	for hops := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			cur = filepath.Dir(cur)
			continue
		}
		full := filepath.Join(cur, name)
		fi, err := os.Lstat(full)
		if err != nil {
			points = append(points, point{cur, name})
			if cur != top {
				points = append(points, point{filepath.Dir(cur), filepath.Base(cur)})
			}
			return filepath.Join(append([]string{full}, rest...)...), points, err
		}
		if fi.Mode()&os.ModeSymlink != 0 {
			points = append(points, point{cur, name})
			if hops++; hops > 40 {
				return full, points, fmt.Errorf("%s: too many links", path)
			}
			to, err := os.Readlink(full)
			if err != nil {
				return full, points, err
			}
			if filepath.IsAbs(to) {
				cur = top
			}
			rest = append(components(to[len(filepath.VolumeName(to)):]), rest...)
			continue
		}
		if len(rest) < tail {
			points = append(points, point{cur, name})
		}
		cur = full
	}
	return cur, points, nil
}

func components(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == filepath.Separator })
}
