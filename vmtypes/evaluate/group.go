package evaluate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/sandbox"
)

// A Group evaluates several types one after another. All types except stock types run in one process and share its
// limits. A Group is for callers that need the result of one plan before they request the next. Only one goroutine may
// use a Group. The caller must close it.
type Group struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	members int

	// State of the process; nil until it starts.
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
	source *typeText     // for the process, until it was sent
	loaded *vmtypes.Type // only if the type is evaluated in this process
	fault  error         // the reason why every evaluation fails
}

// typeText is the form of a type that is sent to the process.
type typeText struct {
	Source  vmtypes.Source
	Name    string
	File    string
	Archive []byte
}

// options are a VM with its options. A type checks the options, or decides the sizes of the VM.
type options struct {
	VM    wireSpec
	Files vmtypes.Files
}

// A job is one task for the process of a Group. The process loads the type, and then performs the request in the field
// after Text that is set.
type job struct {
	Number  int
	Text    *typeText // only in the first job of a type
	Archive bool
	Options *options
	Sizes   *options
	Launch  *launch
	host    *vmtypes.Host
}

// NewGroup returns an empty Group. When ctx ends, all work of the group ends.
func NewGroup(ctx context.Context) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

// Close ends the process of the group, if it is running.
func (g *Group) Close() {
	g.cancel(nil)
	if g.ended != nil {
		<-g.ended
	}
}

// Add adds a type from Find to the group. It fails if loading a stock type fails.
func (g *Group) Add(t Type) (*Member, error) {
	m := g.newMember(t.Name, &typeText{Source: t.Source, Name: t.Name, File: t.file})
	if t.isStock() {
		var err error
		if m.loaded, err = t.loadType(g.ctx); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// AddKept adds the type of an archive to the group. If all its modules are modules of the program, it is
// evaluated in this process. For an invalid archive, the member has no name and all its methods fail.
func (g *Group) AddKept(archive []byte) *Member {
	name, err := vmtypes.ArchivedName(archive)
	m := g.newMember(name, &typeText{Archive: archive})
	if err == nil && vmtypes.IsStockArchive(archive) {
		m.loaded, err = vmtypes.LoadArchive(g.ctx, archive)
	}
	m.fault = err
	return m
}

func (g *Group) newMember(name string, text *typeText) *Member {
	g.members++
	return &Member{group: g, name: name, number: g.members, source: text}
}

// Name returns the name of the type.
func (m *Member) Name() string { return m.name }

// Load returns the error of loading the type, if any.
func (m *Member) Load() error {
	if m.loaded != nil {
		return nil
	}
	r, err := m.doJob(job{})
	if err != nil {
		return err
	}
	return r.Failure.asError()
}

// Archive returns the type with all its modules, as vmtypes.Type.Archive does.
func (m *Member) Archive() ([]byte, error) {
	if m.loaded != nil {
		return m.loaded.Archive()
	}
	r, err := m.doJob(job{Archive: true})
	if err != nil {
		return nil, err
	}
	return r.Archive, r.Failure.asError()
}

// CheckOptions returns a *vmtypes.FieldsError if vm.options contains errors.
func (m *Member) CheckOptions(spec vmspec.Spec, files vmtypes.Files) error {
	if m.loaded != nil {
		return m.loaded.CheckOptions(m.group.ctx, spec, files)
	}
	r, err := m.doJob(job{Options: &options{VM: newWireSpec(spec), Files: files}})
	if err != nil {
		return err
	}
	return r.Failure.asError()
}

// Sizes returns the sizes that the type decides, as vmtypes.Type.Sizes does.
func (m *Member) Sizes(ctx context.Context, spec vmspec.Spec, files vmtypes.Files) (vmspec.Sizes, error) {
	if m.loaded != nil {
		return m.loaded.Sizes(ctx, spec, files)
	}
	r, err := m.doJob(job{Sizes: &options{VM: newWireSpec(spec), Files: files}})
	return r.decidedSizes(), cmp.Or(err, r.Failure.asError())
}

// Launch works like [Type.Launch], and filters the taps of networks with a filter.
func (m *Member) Launch(ctx context.Context, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error) {
	p, err := m.Plan(ctx, spec, host)
	if err != nil {
		return p, err
	}
	return p, filterTaps(p, spec)
}

// Plan works like [Type.Launch].
func (m *Member) Plan(ctx context.Context, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error) {
	if m.loaded != nil {
		return m.loaded.Launch(ctx, spec, host)
	}
	r, err := m.doJob(job{Launch: &launch{VM: newWireSpec(spec), Host: host}, host: &host})
	if err != nil {
		return nil, err
	}
	if r.Plan == nil {
		return nil, orMissing(r.Failure.asError())
	}
	return r.Plan, orFaults(r.Plan, host.Files.CheckFiles(r.Plan, spec.Options), r.Failure.asError())
}

// doJob sends a job to the process and waits for its reply.
func (m *Member) doJob(j job) (reply, error) {
	g := m.group
	if m.fault != nil {
		return reply{}, m.fault
	}
	if g.ended == nil {
		g.startProcess()
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
		vmtypes.CoverageOf(g.ctx).Add(r.Covered)
		return r, nil
	case <-g.ended:
		return reply{}, fmt.Errorf("VM type %s: %w", m.name, g.err)
	}
}

// startProcess starts the process, which then asks for jobs.
func (g *Group) startProcess() {
	g.jobs, g.replies, g.ended = make(chan job), make(chan reply), make(chan struct{})
	go func() {
		defer close(g.ended)
		var r reply
		_, g.err = sandbox.Run(g.ctx, request{Group: true, Cover: vmtypes.CoverageOf(g.ctx) != nil},
			g.jobAnswerer(), &r)
		if g.err == nil {
			g.err = orMissing(nil)
		}
	}()
}

// jobAnswerer returns the function that sends jobs to the process and answers a type's questions about the host.
func (g *Group) jobAnswerer() func(json.RawMessage) (any, error) {
	var host *vmtypes.Host
	return func(text json.RawMessage) (any, error) {
		var q question
		if err := json.Unmarshal(text, &q); err != nil {
			return nil, err
		}
		if !q.Next {
			return hostAnswerer(host)(text)
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

// serveGroup runs in the separate process. It processes the jobs of a Group until the parent ends it.
func serveGroup(ctx context.Context, ask sandbox.Ask) (any, error) {
	types := map[int]func() (*vmtypes.Type, error){}
	q := question{Next: true}
	for {
		var j job
		if err := ask(q, &j); err != nil {
			return nil, err
		}
		if j.Text != nil {
			loaded, err := j.Text.loadType(ctx)
			types[j.Number] = func() (*vmtypes.Type, error) { return loaded, err }
		}
		load := types[j.Number]
		if load == nil {
			return nil, errors.New("a job for a type that was not given")
		}
		r := j.serveJob(ctx, load, ask)
		r.Covered = vmtypes.CoverageOf(ctx).Take()
		q.Reply = &r
	}
}

func (t *typeText) loadType(ctx context.Context) (*vmtypes.Type, error) {
	if t.Archive != nil {
		return vmtypes.LoadArchive(ctx, t.Archive)
	}
	return Type{Source: t.Source, Name: t.Name, file: t.File}.loadType(ctx)
}

func (j *job) serveJob(ctx context.Context, load func() (*vmtypes.Type, error), ask sandbox.Ask) reply {
	t, err := load()
	var r reply
	switch {
	case err != nil:
	case j.Archive:
		r.Archive, err = t.Archive()
	case j.Options != nil:
		err = t.CheckOptions(ctx, j.Options.VM.Spec, j.Options.Files)
	case j.Sizes != nil:
		r.Sizes, err = sizesOf(ctx, t, j.Sizes)
	case j.Launch != nil:
		r.Plan, err = t.Launch(ctx, j.Launch.VM.Spec, hostByQuestions(j.Launch.Host, ask))
	}
	r.Failure = newFailure(err)
	return r
}

func sizesOf(ctx context.Context, t *vmtypes.Type, of *options) (*vmspec.Sizes, error) {
	sizes, err := t.Sizes(ctx, of.VM.Spec, of.Files)
	return &sizes, err
}

// decidedSizes returns the sizes of a reply; zero without them.
func (r *reply) decidedSizes() (sizes vmspec.Sizes) {
	if r.Sizes != nil {
		sizes = *r.Sizes
	}
	return sizes
}
