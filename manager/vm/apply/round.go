package apply

import (
	"crypto/rand"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/store/publish"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// Owners of the fields of a VM's status and objects. When a runner can no longer write its fields, the manager
// writes them under the runner's name.
const (
	managerOwner = publish.Owner
	runnerOwner  = client.FieldOwner("vm-runner")
)

// Writer writes the objects of all VMs. Several goroutines can use it, each for a different VM.
type Writer struct {
	client   publish.Client // can't read, since the snapshot contains everything that is known
	live     client.Reader  // reads from the API server
	instance string
	random   io.Reader
	pace     pace
	started  func(decide.Start)
}

// NewWriter returns a Writer. live reads the few things that no snapshot contains from the API server. instance is
// the name of the manager's process in events. rewriting limits the rate of writes that are not urgent. started is
// called after each start of a VM.
func NewWriter(to publish.Client, live client.Reader, instance string, rewriting Rate,
	started func(decide.Start),
) *Writer {
	return &Writer{
		client: to, live: live, instance: instance, random: rand.Reader, pace: pace{Rate: rewriting}, started: started,
	}
}

// Memory contains what is remembered about the writes for a VM from one round to the next. The zero Memory belongs
// to a manager that has just started and trusts the objects that it finds.
type Memory struct {
	written     writes
	statefulSet uint64             // its version after the last change
	status      uint64             // the VM's version after the last write of its status
	fleeting    time.Time          // since when a fleeting phase is unpublished
	refusals    map[string]refusal // refused changes of claims, by claim name
	turn        turn               // among VMs to rewrite
	mounted     *mounted           // the claims of the pod, if they have been read
	made        map[string]types.UID
	tokens      map[string]string // of announced claims, by claim name
}

// StatusVersion returns the VM's version after the last write of its status. A snapshot with an older version is out
// of date.
func (m *Memory) StatusVersion() uint64 { return m.status }

// StatefulSetVersion returns the StatefulSet's version after its last change. A newer version means that its
// controller has seen the change.
func (m *Memory) StatefulSetVersion() uint64 { return m.statefulSet }

// MadeClaims returns the UIDs of created claims, by claim name. It forgets the claims that the VM's
// status already lists as the VM's claims.
func (m *Memory) MadeClaims(vm *v1.VirtualMachine) map[string]types.UID {
	for _, v := range vm.Status.Volumes {
		if v.UID != "" && v.UID == string(m.made[v.Claim]) && v.Untrusted != objects.NotMade {
			delete(m.made, v.Claim)
		}
	}
	if len(m.made) == 0 {
		m.made = nil
	}
	return m.made
}

// Round writes the objects of a VM during one reconciliation. Its methods are the steps.
type Round struct {
	*decide.Snapshot
	w       *Writer
	memory  *Memory
	epoch   int64 // of the settings, starting at 1
	settled bool
	again   time.Time // when to reconcile again because of writes or postponed writes
	delayed bool      // some writes were postponed
}

// Begin starts a round. epoch counts the changes of the settings, starting at 1.
func (w *Writer) Begin(s *decide.Snapshot, m *Memory, epoch int64) *Round {
	return &Round{Snapshot: s, w: w, memory: m, epoch: epoch, settled: s.Settled()}
}

// End ends a round without errors. It returns when the VM must be reconciled again even without a change; zero means
// never.
func (r *Round) End() time.Time {
	if !r.delayed {
		r.memory.turn = turn{epoch: r.epoch}
	}
	return r.again
}

// retryAt schedules another reconciliation of the VM no later than at a time.
func (r *Round) retryAt(at time.Time) {
	if r.again.IsZero() || at.Before(r.again) {
		r.again = at
	}
}

func (r *Round) namespacedName(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: r.VM.Namespace, Name: name}
}
