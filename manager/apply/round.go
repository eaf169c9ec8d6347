package apply

import (
	"crypto/rand"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
	"vmop/manager/publish"
)

// The owners of the fields of a VM's status and objects. What the runner writes is
// written in its name when it no longer can.
const (
	managerOwner = publish.Owner
	runnerOwner  = client.FieldOwner("vm-runner")
)

// A Client writes objects, and their status. It can't read: what is known is in the
// snapshot.
type Client interface {
	client.Writer
	client.StatusClient
}

// A Writer writes the objects of all VMs. It can be used by several goroutines, each of
// which writes another VM's.
type Writer struct {
	client   Client
	live     client.Reader // asks the API server
	instance string
	random   io.Reader
	pace     pace
	started  func(decide.Start)
}

// NewWriter returns a Writer. live reads the few things that no snapshot has from the API
// server, instance is the name of the manager's process in events, rewriting limits the
// rate of writes that are not urgent. started is called after each start of a VM.
func NewWriter(to Client, live client.Reader, instance string, rewriting Rate,
	started func(decide.Start),
) *Writer {
	return &Writer{
		client: to, live: live, instance: instance, random: rand.Reader, pace: pace{Rate: rewriting}, started: started,
	}
}

// Memory is what is remembered of the writing of a VM from one round to the next. The
// zero Memory is that of a manager that has just started: it believes what it finds.
type Memory struct {
	written     writes
	statefulSet uint64             // its version after it was last changed
	status      uint64             // the VM's version after its status was last written
	fleeting    time.Time          // since when a fleeting phase has not been published
	refusals    map[string]refusal // of changes of claims, by name
	turn        turn               // among rewritten VMs
	mounted     *mounted           // the claims of the pod, if they have been read
	made        map[string]types.UID
	tokens      map[string]string // of claims that are announced, by name
}

// StatusVersion returns the version that the VM had after its status was last written: an
// older one in a snapshot is out of date.
func (m *Memory) StatusVersion() uint64 { return m.status }

// StatefulSetVersion returns the version that the stateful set had after it was last
// changed: in a newer one, its controller has seen the change.
func (m *Memory) StatefulSetVersion() uint64 { return m.statefulSet }

// MadeClaims returns the uids of the claims that were created, by name, and forgets those
// that the VM's status has as the VM's.
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

// A Round is the writing of one reconciliation. Its methods are its steps.
type Round struct {
	*decide.Snapshot
	w       *Writer
	memory  *Memory
	epoch   int64 // of the settings, from 1
	settled bool
	again   time.Time // when to come again because of what was, or wasn't, written
	delayed bool      // not everything was written
}

// Begin begins a round. epoch counts the changes of the settings, from 1.
func (w *Writer) Begin(s *decide.Snapshot, m *Memory, epoch int64) *Round {
	return &Round{Snapshot: s, w: w, memory: m, epoch: epoch, settled: s.Settled()}
}

// End ends a round without errors, and returns when the VM must be reconciled again if
// nothing changes; zero: never.
func (r *Round) End() time.Time {
	if !r.delayed {
		r.memory.turn = turn{epoch: r.epoch}
	}
	return r.again
}

// retryAt makes the VM be reconciled again no later than at a time.
func (r *Round) retryAt(at time.Time) {
	if r.again.IsZero() || at.Before(r.again) {
		r.again = at
	}
}

func (r *Round) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: r.VM.Namespace, Name: name}
}
