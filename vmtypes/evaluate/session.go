package evaluate

import (
	"context"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/sandbox"
)

// A Session evaluates what a user types. Each input is evaluated in a process
// of its own, after all those before it, again: the language is pure, so the
// result is the same, and what an input takes or breaks is gone with its process.
// All inputs together have the limits of one request.
type Session struct {
	vmType Type
	spec   vmspec.Spec
	host   vmtypes.Host
	inputs []string // those that had no error
}

// NewSession begins a session in which vm and host are those of a VM of a type,
// and the modules of the type's source can be loaded.
func NewSession(vmType Type, spec vmspec.Spec, host vmtypes.Host) *Session {
	return &Session{vmType: vmType, spec: spec, host: host}
}

// Run evaluates an input. After an error it is as if it hadn't been there.
func (s *Session) Run(ctx context.Context, text string) (output string, err error) {
	r, err := s.send(ctx, text, false)
	if err != nil {
		return "", err
	}
	if err = r.Failure.error(); err == nil {
		s.inputs = append(s.inputs, text)
	}
	return r.Output, err
}

// Complete returns the ways in which a line could go on.
func (s *Session) Complete(ctx context.Context, line string) ([]string, error) {
	r, err := s.send(ctx, line, true)
	if err != nil {
		return nil, err
	}
	return r.Names, r.Failure.error()
}

func (s *Session) send(ctx context.Context, text string, complete bool) (reply, error) {
	var r reply
	q := input{VM: newWireSpec(s.spec), Host: s.host, Before: s.inputs, Text: text, Complete: complete}
	request := request{Input: &q, Source: s.vmType.Source, Name: s.vmType.Name, File: s.vmType.file}
	_, err := sandbox.Run(ctx, request, answerer(&s.host), &r)
	return r, err
}

// serve evaluates the inputs before, and then this one.
func (q *input) serve(ctx context.Context, t Type, ask sandbox.Ask) reply {
	session, err := t.Source.Library().Session(ctx, t.Name, q.VM.Spec, asking(q.Host, ask))
	if err != nil {
		return reply{Failure: newFailure(err)}
	}
	for _, before := range q.Before {
		if _, err := session.Run(ctx, before); err != nil {
			return reply{Failure: newFailure(err)}
		}
	}
	if q.Complete {
		return reply{Names: session.Complete(q.Text)}
	}
	output, err := session.Run(ctx, q.Text)
	return reply{Output: output, Failure: newFailure(err)}
}
