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

// audit is the API server's log of the manager's requests. The API server writes an entry before it answers.
type audit struct {
	path string
	read int64 // offset up to which it has been read
}

// calls counts requests by name: "patch statefulsets", "watch pods".
type calls map[string]int

// entry contains the used fields of an audit event
// (https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/).
type entry struct {
	Verb      string
	ObjectRef struct{ Resource, Subresource string }
	URI       string `json:"requestURI"`
}

// drainCalls returns the calls since the previous drainCalls.
func (a *audit) drainCalls() (calls, error) {
	file, err := os.Open(a.path)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	defer func() { _ = file.Close() }() // opened for reading only
	if _, err := file.Seek(a.read, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	found := calls{}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return found, nil // an incomplete line is read next time
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

// callName returns the name of a call. Without a resource, the name is the path.
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

// countWrites returns the number of calls that change something, and countReads the number of calls that read objects.
// Both exclude watches, which are always open. countRenewals returns the number of the leader's lease renewals, one
// every two seconds.
func (c calls) countWrites() int {
	return c.countVerbs("create", "update", "patch", "delete", "deletecollection")
}
func (c calls) countReads() int    { return c.countVerbs("get", "list") }
func (c calls) countRenewals() int { return c["update leases"] }

// addCalls adds the counts of others.
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
