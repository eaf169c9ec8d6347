package controller

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
)

// server plays the API server for addresses and leases. Like the real one, it accepts a name once and refuses a change
// or deletion with an outdated version.
type server struct {
	mu      sync.Mutex
	version int64
	objects map[string]client.Object // by kind, namespace and name
	seen    []func(client.Object, bool)
	writes  int
}

func keyOf(o client.Object) string {
	if l, is := o.(*v1.VirtualMachineIPAddressLease); is {
		return l.Name
	}
	return o.GetNamespace() + "/" + o.GetName()
}

func notFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "addresses"}, name)
}

func conflict(name string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "addresses"}, name,
		errors.New("it has another version"))
}

// changed notifies all managers. The caller holds s.mu.
func (s *server) changed(o client.Object, gone bool) {
	for _, see := range s.seen {
		see(o.DeepCopyObject().(client.Object), gone)
	}
}

func (s *server) create(o client.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, had := s.objects[keyOf(o)]; had {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "addresses"}, o.GetName())
	}
	s.version++
	s.writes++
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
	o.SetUID(types.UID("uid-" + o.GetResourceVersion()))
	s.objects[keyOf(o)] = o.DeepCopyObject().(client.Object)
	s.changed(o, false)
	return nil
}

func (s *server) patch(o client.Object, text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, had := s.objects[keyOf(o)]
	if !had {
		return notFound(o.GetName())
	}
	var change, is map[string]any
	if err := json.Unmarshal(text, &change); err != nil {
		return err
	}
	if change["metadata"].(map[string]any)["resourceVersion"] != have.GetResourceVersion() {
		return conflict(o.GetName())
	}
	before, _ := json.Marshal(have)
	_ = json.Unmarshal(before, &is)
	merge(is, change)
	s.version++
	s.writes++
	is["metadata"].(map[string]any)["resourceVersion"] = strconv.FormatInt(s.version, 10)
	after, _ := json.Marshal(is)
	var next client.Object = &v1.VirtualMachineIPAddress{}
	if _, is := o.(*v1.VirtualMachineIPAddressLease); is {
		next = &v1.VirtualMachineIPAddressLease{}
	}
	if err := errors.Join(json.Unmarshal(after, next), json.Unmarshal(after, o)); err != nil {
		return err
	}
	s.objects[keyOf(o)] = next
	s.changed(next, false)
	return nil
}

// merge applies a JSON merge patch (RFC 7386) to an object.
func merge(into, change map[string]any) {
	for key, value := range change {
		below, is := value.(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case is:
			if _, has := into[key].(map[string]any); !has {
				into[key] = map[string]any{}
			}
			merge(into[key].(map[string]any), below)
		default:
			into[key] = value
		}
	}
}

func (s *server) delete(key, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, had := s.objects[key]
	if !had {
		return notFound(key)
	}
	if version != "" && version != o.GetResourceVersion() {
		return conflict(key)
	}
	s.version++
	s.writes++
	delete(s.objects, key)
	s.changed(o, true)
	return nil
}

func (s *server) get(key string) client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, had := s.objects[key]; had {
		return o.DeepCopyObject().(client.Object)
	}
	return nil
}

// errKilled ends all further work of a killed manager.
var errKilled = errors.New("killed")

// wire is the connection of one manager process. It can be cut before or after a write, and then stays cut.
type wire struct {
	client.Writer

	*server
	random *rand.Rand
	cuts   float64 // the probability of a cut at each write
	cut    bool
}

func (w *wire) write(do func() error) error {
	if w.cut = w.cut || w.random.Float64() < w.cuts/2; w.cut {
		return errKilled
	}
	err := do()
	if w.cut = w.random.Float64() < w.cuts/2; w.cut {
		return errKilled
	}
	return err
}

func (w *wire) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	return w.write(func() error { return w.server.create(o) })
}

func (w *wire) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	text, err := p.Data(o)
	if err != nil {
		return err
	}
	return w.write(func() error { return w.server.patch(o, text) })
}

func (w *wire) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	var all client.DeleteOptions
	for _, opt := range opts {
		opt.ApplyToDelete(&all)
	}
	return w.write(func() error { return w.server.delete(keyOf(o), *all.Preconditions.ResourceVersion) })
}

// Get reads from the API server.
func (w *wire) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *corev1.Namespace:
		into.UID = types.UID(key.Name)
		return nil
	case *v1.VirtualMachineIPAddress:
		if have := w.server.get(key.Namespace + "/" + key.Name); have != nil {
			have.(*v1.VirtualMachineIPAddress).DeepCopyInto(into)
			return nil
		}
	}
	return notFound(key.Name)
}

func (w *wire) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("nothing is listed but by the watch")
}
