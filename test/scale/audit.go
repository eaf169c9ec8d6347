package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// audit is the API server's log of what the manager has asked for. It is written
// before the answer is given.
type audit struct {
	path string
	read int64 // how far it was read
}

// calls count what was asked for: "patch statefulsets", "watch pods".
type calls map[string]int

// entry is what is of use of an audit event
// (https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/).
type entry struct {
	Verb      string
	ObjectRef struct{ Resource, Subresource string }
	URI       string `json:"requestURI"`
}

// drainCalls returns the calls since it was called last.
func (a *audit) drainCalls() (calls, error) {
	file, err := os.Open(a.path)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	if _, err := file.Seek(a.read, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	found := calls{}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return found, nil // half a line is read next time
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		a.read += int64(len(line))
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		found[e.callName()]++
	}
}

// callName says what was asked for; of what is no resource its path.
func (e entry) callName() string {
	what := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		what += "/" + e.ObjectRef.Subresource
	}
	if what == "" {
		what, _, _ = strings.Cut(e.URI, "?")
	}
	return e.Verb + " " + what
}

// countWrites and reads are how many of the calls change something, and how many ask for
// objects. Watches, which are there all the time, are neither; renewals are the
// leader's word, every two seconds, that it is there.
func (c calls) countWrites() int {
	return c.countVerbs("create", "update", "patch", "delete", "deletecollection")
}
func (c calls) countReads() int    { return c.countVerbs("get", "list") }
func (c calls) countRenewals() int { return c["update leases"] }

// addCalls adds other calls.
func (c calls) addCalls(others calls) {
	for name, n := range others {
		c[name] += n
	}
}

func (c calls) countVerbs(verbs ...string) int {
	sum := 0
	for name, n := range c {
		verb, what, _ := strings.Cut(name, " ")
		if slices.Contains(verbs, verb) && what != "leases" {
			sum += n
		}
	}
	return sum
}

// String lists the calls.
func (c calls) String() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		list = append(list, fmt.Sprintf("%d x %s", c[name], name))
	}
	return strings.Join(list, ", ")
}
