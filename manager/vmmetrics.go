package manager

import (
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"vmop/manager/scrape"
	"vmop/manager/store"
	"vmop/manager/stream"
)

// reached are the runners of VMs, where their metrics are to be had. They are looked up once, until something about the
// VM changes, because to decode 5000 VMs and pods takes much of the time in which an answer is expected.
type reached struct {
	store *store.Store
	keys  *stream.Keys

	mu    sync.Mutex
	known map[string]func() (scrape.Runner, error) // by VM
}

// newScraper returns the handler of requests for the metrics of all VMs, to which only the manager that leads has an
// answer. The store must not be followed yet.
func newScraper(namespace string, s *store.Store, keys *stream.Keys, leads func() bool,
	log *slog.Logger,
) *scrape.Scraper {
	r := &reached{store: s, keys: keys, known: map[string]func() (scrape.Runner, error){}}
	s.OnChange(r.forget)
	return scrape.New(scrape.Options{
		Namespace: namespace, Runner: r.runner, Log: log,
		VMs: func() []string {
			if !leads() {
				return nil // each VM must be there once
			}
			return s.Names()
		},
	})
}

func (r *reached) forget(vm string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, vm)
}

// runner implements scrape.Options.Runner. What changes while it is looked up is looked up again the next time.
func (r *reached) runner(vm string) (scrape.Runner, error) {
	r.mu.Lock()
	find, known := r.known[vm]
	if !known {
		find = sync.OnceValues(func() (scrape.Runner, error) { return r.find(vm) })
		r.known[vm] = find
	}
	r.mu.Unlock()
	return find()
}

func (r *reached) find(name string) (scrape.Runner, error) {
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
		return nil, nil // it has not reported yet, or is older than this port
	}
	return r.keys.Bounded(target, scrape.MostBytes), nil
}
