package evaluate

import (
	"context"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/sandbox"
)

// A Session evaluates interactive input. Each input is evaluated in a separate process, which first evaluates all
// previous inputs again. The language is pure, so the results are the same. When the process ends, the input's
// resources are released, and an attack by the input ends as well. All inputs together share the limits of one request.
type Session struct {
	vmType Type
	spec   vmspec.Spec
	host   vmtypes.Host
	inputs []string // without the inputs that failed
}

// NewSession starts a session. Inputs can use vm and host with the values for a VM of the type, and can load the
// modules of the type's source.
func NewSession(vmType Type, spec vmspec.Spec, host vmtypes.Host) *Session {
	return &Session{vmType: vmType, spec: spec, host: host}
}

// Run evaluates an input. An input that fails has no effect on later inputs.
func (s *Session) Run(ctx context.Context, text string) (output string, err error) {
	r, err := s.sendInput(ctx, text, false)
	if err != nil {
		return "", err
	}
	if err = r.Failure.asError(); err == nil {
		s.inputs = append(s.inputs, text)
	}
	return r.Output, err
}

// Complete returns the possible completions of a line.
func (s *Session) Complete(ctx context.Context, line string) ([]string, error) {
	r, err := s.sendInput(ctx, line, true)
	if err != nil {
		return nil, err
	}
	return r.Names, r.Failure.asError()
}

func (s *Session) sendInput(ctx context.Context, text string, complete bool) (reply, error) {
	var r reply
	q := input{VM: newWireSpec(s.spec), Host: s.host, Before: s.inputs, Text: text, Complete: complete}
	request := request{Input: &q, Source: s.vmType.Source, Name: s.vmType.Name, File: s.vmType.file}
	_, err := sandbox.Run(ctx, request, hostAnswerer(&s.host), &r)
	return r, err
}

// serveInput evaluates the previous inputs, followed by this input.
func (q *input) serveInput(ctx context.Context, t Type, ask sandbox.Ask) reply {
	session, err := t.Source.Library().Session(ctx, t.Name, q.VM.Spec, hostByQuestions(q.Host, ask))
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
