package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/sandbox"
)

// A Group evaluates several types one after another, all those that are not stock
// types in one process, whose limits they share. It is for a caller that learns
// from each plan what to ask next. One goroutine uses it. It must be closed.
type Group struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	members int

	// Of the process; nil before there is one.
	jobs    chan job
	replies chan reply
	ended   chan struct{} // closed when err is set
	err     error
}

// A Member is a type of a Group.
type Member struct {
	group  *Group
	name   string
	number int
	source *typeText     // for the process, until it has it
	loaded *vmtypes.Type // of one that is evaluated in this process
	fault  error         // of one that cannot be evaluated at all
}

// typeText is a type as the process gets it.
type typeText struct {
	Source  vmtypes.Source
	Name    string
	File    string
	Archive []byte
}

// options are those that a type checks.
type options struct {
	VM    wireSpec
	Files vmtypes.Files
}

// A job is what the process of a Group does next with a type: it loads it, and does
// what the one that is set of the fields after Text says.
type job struct {
	Number  int
	Text    *typeText // the first time
	Archive bool
	Options *options
	Launch  *launch
	host    *vmtypes.Host
}

// NewGroup returns a Group without members. Everything it does ends with ctx.
func NewGroup(ctx context.Context) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

// Close ends the process of the group, if there is one.
func (g *Group) Close() {
	g.cancel(nil)
	if g.ended != nil {
		<-g.ended
	}
}

// Add makes a type, as Find returns it, a member. A stock type that cannot be
// loaded is an error.
func (g *Group) Add(t Type) (*Member, error) {
	m := g.member(t.Name, &typeText{Source: t.Source, Name: t.Name, File: t.file})
	if t.stock() {
		var err error
		if m.loaded, err = t.load(g.ctx); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// AddKept makes the type of an archive a member. One whose modules are all the
// program's own is evaluated in this process. What is no archive has no name, and
// fails to do anything.
func (g *Group) AddKept(archive []byte) *Member {
	name, err := vmtypes.ArchivedName(archive)
	m := g.member(name, &typeText{Archive: archive})
	if err == nil && vmtypes.IsStockArchive(archive) {
		m.loaded, err = vmtypes.LoadArchive(g.ctx, archive)
	}
	m.fault = err
	return m
}

func (g *Group) member(name string, text *typeText) *Member {
	g.members++
	return &Member{group: g, name: name, number: g.members, source: text}
}

// Name returns the name of the type.
func (m *Member) Name() string { return m.name }

// Load returns what is wrong with the type, as far as loading it shows.
func (m *Member) Load() error {
	if m.loaded != nil {
		return nil
	}
	r, err := m.do(job{})
	if err != nil {
		return err
	}
	return r.Failure.error()
}

// Archive returns the type with all its modules, as vmtypes.Type.Archive does.
func (m *Member) Archive() ([]byte, error) {
	if m.loaded != nil {
		return m.loaded.Archive()
	}
	r, err := m.do(job{Archive: true})
	if err != nil {
		return nil, err
	}
	return r.Archive, r.Failure.error()
}

// CheckOptions returns a *vmtypes.OptionsError if vm.options of a spec has faults.
func (m *Member) CheckOptions(spec vmspec.Spec, files vmtypes.Files) error {
	if m.loaded != nil {
		return m.loaded.CheckOptions(spec, files)
	}
	r, err := m.do(job{Options: &options{VM: newWireSpec(spec), Files: files}})
	if err != nil {
		return err
	}
	return r.Failure.error()
}

// Launch is Type.Launch.
func (m *Member) Launch(ctx context.Context, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error) {
	p, err := m.launch(ctx, spec, host)
	if err != nil {
		return p, err
	}
	return p, filterTaps(p, spec)
}

func (m *Member) launch(ctx context.Context, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error) {
	if m.loaded != nil {
		return m.loaded.Launch(ctx, spec, host)
	}
	r, err := m.do(job{Launch: &launch{VM: newWireSpec(spec), Host: host}, host: &host})
	if err != nil {
		return nil, err
	}
	if r.Plan == nil {
		return nil, orMissing(r.Failure.error())
	}
	return r.Plan, orFaults(r.Plan, host.Files.CheckFiles(r.Plan, spec.Options), r.Failure.error())
}

// do has the process do a job.
func (m *Member) do(j job) (reply, error) {
	g := m.group
	if m.fault != nil {
		return reply{}, m.fault
	}
	if g.ended == nil {
		g.start()
	}
	j.Number, j.Text = m.number, m.source
	m.source = nil
	select {
	case g.jobs <- j:
	case <-g.ended:
		return reply{}, fmt.Errorf("VM type %s: %w", m.name, g.err)
	}
	select {
	case r := <-g.replies:
		return r, nil
	case <-g.ended:
		return reply{}, fmt.Errorf("VM type %s: %w", m.name, g.err)
	}
}

// start starts the process, which asks for its jobs.
func (g *Group) start() {
	g.jobs, g.replies, g.ended = make(chan job), make(chan reply), make(chan struct{})
	go func() {
		defer close(g.ended)
		var r reply
		_, g.err = sandbox.Run(g.ctx, request{Group: true}, g.answerer(), &r)
		if g.err == nil {
			g.err = orMissing(nil)
		}
	}()
}

// answerer gives the process its jobs, and answers what a type asks about the
// host.
func (g *Group) answerer() func(json.RawMessage) (any, error) {
	var host *vmtypes.Host
	return func(text json.RawMessage) (any, error) {
		var q question
		if err := json.Unmarshal(text, &q); err != nil {
			return nil, err
		}
		if !q.Next {
			return answerer(host)(text)
		}
		if q.Reply != nil {
			select {
			case g.replies <- *q.Reply:
			case <-g.ctx.Done():
				return nil, context.Cause(g.ctx)
			}
		}
		select {
		case j := <-g.jobs:
			host = j.host
			return j, nil
		case <-g.ctx.Done():
			return nil, context.Cause(g.ctx)
		}
	}
}

// serveGroup does the jobs of a Group, in the process of its own, until the
// parent ends it.
func serveGroup(ctx context.Context, ask sandbox.Ask) (any, error) {
	types := map[int]func() (*vmtypes.Type, error){}
	q := question{Next: true}
	for {
		var j job
		if err := ask(q, &j); err != nil {
			return nil, err
		}
		if j.Text != nil {
			loaded, err := j.Text.load(ctx)
			types[j.Number] = func() (*vmtypes.Type, error) { return loaded, err }
		}
		load := types[j.Number]
		if load == nil {
			return nil, errors.New("a job for a type that was not given")
		}
		r := j.serve(ctx, load, ask)
		q.Reply = &r
	}
}

func (t *typeText) load(ctx context.Context) (*vmtypes.Type, error) {
	if t.Archive != nil {
		return vmtypes.LoadArchive(ctx, t.Archive)
	}
	return Type{Source: t.Source, Name: t.Name, file: t.File}.load(ctx)
}

func (j *job) serve(ctx context.Context, load func() (*vmtypes.Type, error), ask sandbox.Ask) reply {
	t, err := load()
	var r reply
	switch {
	case err != nil:
	case j.Archive:
		r.Archive, err = t.Archive()
	case j.Options != nil:
		err = t.CheckOptions(j.Options.VM.Spec, j.Options.Files)
	case j.Launch != nil:
		r.Plan, err = t.Launch(ctx, j.Launch.VM.Spec, asking(j.Launch.Host, ask))
	}
	r.Failure = newFailure(err)
	return r
}
