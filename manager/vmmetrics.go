package manager

import (
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"vmop/manager/store"
	"vmop/manager/vm/scrape"
	"vmop/manager/web/stream"
)

// reached caches the runners that provide the metrics of VMs. A runner is looked up once and again after its VM
// has changed, because decoding 5000 VMs and pods would take much of the time allowed for an answer.
type reached struct {
	store *store.Store
	keys  *stream.Keys

	mu    sync.Mutex
	known map[string]func() (scrape.Runner, error) // by VM
}

// newScraper returns the handler of requests for the metrics of all VMs. Only the leader returns metrics.
// newScraper must be called before the store follows the API server.
func newScraper(namespace string, s *store.Store, keys *stream.Keys, leads func() bool,
	log *slog.Logger,
) *scrape.Scraper {
	r := &reached{store: s, keys: keys, known: map[string]func() (scrape.Runner, error){}}
	s.OnChange(r.forgetVM)
	return scrape.New(scrape.Options{
		Namespace: namespace, Runner: r.runnerOf, Log: log,
		VMs: func() []string {
			if !leads() {
				return nil // each VM must occur once
			}
			return s.Names()
		},
	})
}

func (r *reached) forgetVM(vm string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, vm)
}

// runnerOf implements scrape.Options.Runner. If a VM changes during the look-up, the next call looks it up again.
func (r *reached) runnerOf(vm string) (scrape.Runner, error) {
	r.mu.Lock()
	find, known := r.known[vm]
	if !known {
		find = sync.OnceValues(func() (scrape.Runner, error) { return r.findRunner(vm) })
		r.known[vm] = find
	}
	r.mu.Unlock()
	return find()
}

func (r *reached) findRunner(name string) (scrape.Runner, error) {
	vm, err := r.store.VM(name)
	if vm == nil || err != nil {
		return nil, err
	}
	pod, err := r.store.Pod(name)
	if pod == nil || err != nil || pod.Status.Phase != corev1.PodRunning {
		return nil, err
	}
	target, err := stream.TargetOf(vm, pod.UID, pod.Status.PodIP)
	if err != nil {
		return nil, nil // the runner has not reported yet, or lacks this port
	}
	return r.keys.Bounded(target, scrape.MostBytes), nil
}
