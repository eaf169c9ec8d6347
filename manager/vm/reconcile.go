package vm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// reconciler looks after VMs.
type reconciler struct {
	mirror     *mirror
	client     writer
	live       client.Reader // asks the API server
	opts       Options
	random     io.Reader
	memories   memories
	modules    modules
	pace       pace
	complaints [kinds]complaints
	epoch      atomic.Int64 // counts the changes of the settings
}

// writer changes objects, and their status. It can't read: what is known is in the
// mirror.
type writer interface {
	client.Writer
	client.StatusClient
}

func newReconciler(c writer, live client.Reader, opts Options) *reconciler {
	return &reconciler{
		mirror: newMirror(opts.Namespace, func() string { return opts.Settings().VMTypes }),
		client: c, live: live, opts: opts, random: rand.Reader,
		memories: memories{all: map[types.NamespacedName]*memory{}},
		modules:  modules{all: map[types.NamespacedName]moduleSet{}},
		pace:     pace{rate: opts.rewriting},
	}
}

// A step does one thing for a VM.
type step func(context.Context, *visit) (outcome, error)

// preparations are the steps that a VM needs before it can start. Where one isn't
// done, a VM that runs goes on and one that doesn't is not started.
func (c *reconciler) preparations() []step {
	return []step{c.checkType, c.displaySecret, c.makeClaims, c.checkTrust, c.makeConfigMap}
}

// performances are the steps that carry out what was decided, once it stands.
func (c *reconciler) performances() []step {
	return []step{c.endOfGuest, c.patchPod, c.makeService}
}

// Reconcile looks at a VM and does what there is to do for it.
func (c *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	v, err := c.look(request.Name)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case v == nil:
		c.memories.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	case versionOf(v.vm) < v.memory.status:
		return reconcile.Result{}, nil // what was written last is not in the cache yet, but will be
	}
	v.resting = v.atRest()
	err = c.visit(ctx, v)
	if err != nil {
		return reconcile.Result{}, err
	}
	v.served()
	result := reconcile.Result{}
	if !v.again.IsZero() {
		result.RequeueAfter = max(v.again.Sub(v.now), firstRetry)
	}
	return result, nil
}

// visit takes the steps.
func (c *reconciler) visit(ctx context.Context, v *visit) error {
	if v.vm.DeletionTimestamp != nil {
		return c.tell(ctx, v) // the garbage collector does the rest, or leaves it, as the user asked
	}
	hold := func(o outcome) {
		if v.hold == nil {
			v.hold = o
		}
	}
	err := c.take(ctx, v, c.preparations(), hold)
	said, spoken := c.lastWord(ctx, v)
	if said || spoken != nil {
		return errors.Join(err, spoken) // the VM comes again with its new status
	}
	before := v.vm.Status.Failures
	v.failures = countFailures(before, v.pod, v.vm.Generation != v.vm.Status.ObservedGeneration, v.now)
	if v.failures != nil && (before == nil || v.failures.LastTime != before.LastTime) {
		return errors.Join(err, c.tell(ctx, v)) // else the failure is forgotten with its pod
	}
	v.decision = decide(v.situation)
	v.lookAgain(v.decision.again)
	return errors.Join(err,
		c.take(ctx, v, []step{c.makeStatefulSet}, hold),
		c.take(ctx, v, c.performances(), nil),
		c.tell(ctx, v))
}

// take takes steps, all of them: what one can't do is no reason to leave out
// another. Hold is told of what is not done.
func (c *reconciler) take(ctx context.Context, v *visit, steps []step, hold func(outcome)) error {
	var errs []error
	for _, do := range steps {
		o, err := survive(ctx, v, do)
		errs = append(errs, err)
		if o == nil && err != nil {
			o = waiting{reason: reasonRetrying, message: readable(err.Error())}
		}
		if o == nil {
			continue
		}
		v.note(o)
		if hold != nil {
			hold(o)
		}
	}
	return errors.Join(errs...)
}

// survive takes a step, and a panic in it for an error: what is wrong with one VM
// shall be told, and is no reason for others to wait.
func survive(ctx context.Context, v *visit, do step) (o outcome, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("look after VM %s: panic: %v", v.vm.Name, r)
			log.FromContext(ctx).Error(err, "panic", "stack", string(debug.Stack()))
		}
	}()
	return do(ctx, v)
}

// note remembers what is not done, for the status.
func (v *visit) note(o outcome) {
	switch o := o.(type) {
	case waiting:
		v.problems = append(v.problems, problem{o.reason, o.message})
		v.lookAgain(o.until)
	case stalled:
		v.problems = append(v.problems, problem(o))
	}
}
