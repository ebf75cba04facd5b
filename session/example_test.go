package session_test

import (
	"encoding/json"
	"fmt"
	"os"

	"dshsh/session"
)

// A log is made, written, closed, opened again and forked.
func Example() {
	dir, err := os.MkdirTemp("", "sessions")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := session.OpenStore(dir, session.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	log, err := store.Create(session.Header{ID: "demo", Cwd: "/project"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, text := range []string{"hello", "world"} {
		if _, err := log.Append(session.Entry{Type: "my/note", Data: json.RawMessage(fmt.Sprintf("%q", text))}); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(log.Sync(), log.Close())

	log, _, err = store.Open("demo")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, rec := range log.Records() {
		fmt.Println(rec.Seq, rec.Type, string(rec.Data))
	}
	child, err := store.Fork(log.Header(), log.Records(), 0, "child")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(child.Header().ParentSession, child.Len(), child.Close(), log.Close())
	// Output:
	// <nil> <nil>
	// 0 my/note "hello"
	// 1 my/note "world"
	// 2 session/end-seed {}
	// demo 2 <nil> <nil>
}
