package trust

import (
	"maps"
	"slices"
)

// granted is project folder -> script -> what it was granted, sorted.
type granted map[string]map[string][]string

// Granted says whether a script was granted a need in a project folder.
func (s *Store) Granted(folder, script, need string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.granted[folder][script], need)
}

// Grant gives needs to a script, beside what it has, now and at later starts.
func (s *Store) Grant(folder, script string, needs []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted.add(folder, script, needs)
	return update(s.grants, func(m granted) { m.add(folder, script, needs) })
}

// Revoke takes back all that was granted in a project folder, and says how much of it
// there was.
func (s *Store) Revoke(folder string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for needs := range maps.Values(s.granted[folder]) {
		n += len(needs)
	}
	delete(s.granted, folder)
	return n, update(s.grants, func(m granted) { delete(m, folder) })
}

func (m granted) add(folder, script string, needs []string) {
	if m[folder] == nil {
		m[folder] = map[string][]string{}
	}
	all := append(slices.Clone(m[folder][script]), needs...)
	slices.Sort(all)
	m[folder][script] = slices.Compact(all)
}
