package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/addresses"
)

// Addresses stores the address objects of one namespace and the leases of the whole cluster. It is separate from
// Store, because a manager also works without it. It is safe for concurrent use.
type Addresses struct {
	namespace string
	addresses *collection[*v1.VirtualMachineIPAddress]
	leases    *collection[*v1.VirtualMachineIPAddressLease]

	mu      sync.Mutex
	failure map[string]error // error of the last attempt to list, by kind
}

// NewAddresses returns an empty store. It calls changed when an address object of the namespace, or its lease, is
// created, changed or deleted; vm is the VM that uses or used the address, if it is known. It calls freed with
// the name of each deleted lease.
func NewAddresses(namespace string, changed func(address, vm string), freed func(lease string)) *Addresses {
	by := newCompressor()
	s := &Addresses{namespace: namespace, failure: map[string]error{}}
	s.addresses = newCollection(addressEncoding(namespace), by, func(name string, r record) { changed(name, r.group) })
	s.leases = newCollection(leaseEncoding(namespace), by, func(name string, r record) {
		if r.group != "" {
			changed(r.group, "")
		}
		if !s.leases.hasObject(name) || r.group != "" {
			freed(name)
		}
	})
	return s
}

// addressEncoding stores address objects as JSON, grouped by the VM that uses them.
func addressEncoding(namespace string) encoding[*v1.VirtualMachineIPAddress] {
	return encoding[*v1.VirtualMachineIPAddress]{
		trim: func(a *v1.VirtualMachineIPAddress) {
			a.TypeMeta, a.ObjectMeta = metav1.TypeMeta{}, metav1.ObjectMeta{
				Name: a.Name, UID: a.UID, ResourceVersion: a.ResourceVersion, DeletionTimestamp: a.DeletionTimestamp,
				OwnerReferences: a.OwnerReferences,
			}
		},
		encode: func(a *v1.VirtualMachineIPAddress) ([]byte, error) { return json.Marshal(a) },
		decode: func(text []byte) (*v1.VirtualMachineIPAddress, error) {
			a := &v1.VirtualMachineIPAddress{}
			err := json.Unmarshal(text, a)
			a.Namespace = namespace
			return a, err
		},
		group:     func(a *v1.VirtualMachineIPAddress) string { return a.Status.VirtualMachine },
		irregular: func(_, vm string) bool { return vm != "" },
	}
}

// leaseEncoding groups the leases of the namespace by the address object that they are for. For leases of other
// namespaces, it keeps only the namespace.
func leaseEncoding(namespace string) encoding[*v1.VirtualMachineIPAddressLease] {
	ours := func(l *v1.VirtualMachineIPAddressLease) bool {
		return l.Spec.VirtualMachineIPAddressRef.Namespace == namespace
	}
	return encoding[*v1.VirtualMachineIPAddressLease]{
		trim: func(l *v1.VirtualMachineIPAddressLease) {
			l.TypeMeta, l.ObjectMeta = metav1.TypeMeta{}, metav1.ObjectMeta{
				Name: l.Name, UID: l.UID, ResourceVersion: l.ResourceVersion, DeletionTimestamp: l.DeletionTimestamp,
			}
			if !ours(l) {
				l.UID, l.Spec.VirtualMachineIPAddressRef.Name = "", ""
				l.Status = v1.VirtualMachineIPAddressLeaseStatus{}
			}
		},
		encode: func(l *v1.VirtualMachineIPAddressLease) ([]byte, error) { return json.Marshal(l) },
		decode: func(text []byte) (*v1.VirtualMachineIPAddressLease, error) {
			l := &v1.VirtualMachineIPAddressLease{}
			return l, json.Unmarshal(text, l)
		},
		group:     func(l *v1.VirtualMachineIPAddressLease) string { return l.Spec.VirtualMachineIPAddressRef.Name },
		irregular: func(_, address string) bool { return address != "" },
	}
}

// Address returns an address object, or nil if it does not exist.
func (s *Addresses) Address(name string) (*v1.VirtualMachineIPAddress, error) {
	return s.addresses.getObject(name)
}

// Lease returns the lease of an address, or nil if it does not exist. A lease of another namespace contains only
// the name of that namespace.
func (s *Addresses) Lease(of netip.Addr) (*v1.VirtualMachineIPAddressLease, error) {
	return s.leases.getObject(addresses.LeaseName(of))
}

// Leased reports whether an address has a lease.
func (s *Addresses) Leased(address netip.Addr) bool {
	return s.leases.hasObject(addresses.LeaseName(address))
}

// LeasesFor returns the leases for an address object.
func (s *Addresses) LeasesFor(name string) (found []*v1.VirtualMachineIPAddressLease, err error) {
	for _, lease := range s.leases.irregularNames(name) {
		l, err := s.leases.getObject(lease)
		if err != nil {
			return nil, err
		}
		if l != nil {
			found = append(found, l)
		}
	}
	return found, nil
}

// Of returns the names of a VM's address objects.
func (s *Addresses) Of(vm string) []string { return s.addresses.irregularNames(vm) }

// Names returns the names of all address objects, including deleted objects that still have leases.
func (s *Addresses) Names() []string {
	names := s.addresses.objectNames()
	s.leases.eachRecord(func(_ string, r record) {
		if r.group != "" && !s.addresses.hasObject(r.group) {
			names = append(names, r.group)
		}
	})
	return names
}

// Learn stores the result of a write, unless the watch has already delivered that version or a later version.
func (s *Addresses) Learn(object client.Object) error {
	switch o := object.(type) {
	case *v1.VirtualMachineIPAddress:
		return s.addresses.learnWrite(o)
	case *v1.VirtualMachineIPAddressLease:
		return s.leases.learnWrite(o)
	}
	return errors.New("store an object: there is no collection of its kind")
}

// Forget removes an object that a write has found deleted.
func (s *Addresses) Forget(object client.Object) error {
	switch o := object.(type) {
	case *v1.VirtualMachineIPAddress:
		return s.addresses.forgetObject(o)
	case *v1.VirtualMachineIPAddressLease:
		return s.leases.forgetObject(o)
	}
	return errors.New("remove an object from the store: there is no collection of its kind")
}

// Listing stores an initial list of all objects, as a watch does. It is for tests without an API server.
func (s *Addresses) Listing(ofAddresses []*v1.VirtualMachineIPAddress,
	ofLeases []*v1.VirtualMachineIPAddressLease,
) error {
	return errors.Join(replaceAll(s.addresses, ofAddresses), replaceAll(s.leases, ofLeases))
}

func replaceAll[T client.Object](c *collection[T], all []T) error {
	list := make([]any, 0, len(all))
	for _, o := range all {
		list = append(list, o)
	}
	return c.Replace(list, "")
}

// Follow keeps the addresses in sync with the API server until ctx is done.
func (s *Addresses) Follow(ctx context.Context, from client.WithWatch) {
	var running sync.WaitGroup
	defer running.Wait()
	noted := func(what string) client.WithWatch {
		return noting{from, func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.failure[what] = err
		}}
	}
	runReflector(ctx, &running, noted("VirtualMachineIPAddresses"), s.namespace, s.addresses, client.ListOptions{},
		&v1.VirtualMachineIPAddress{}, func() client.ObjectList { return &v1.VirtualMachineIPAddressList{} })
	runReflector(ctx, &running, noted("VirtualMachineIPAddressLeases"), "", s.leases, client.ListOptions{},
		&v1.VirtualMachineIPAddressLease{}, func() client.ObjectList { return &v1.VirtualMachineIPAddressLeaseList{} })
}

// noting reports the result of each attempt to list or watch.
type noting struct {
	client.WithWatch

	note func(error)
}

func (n noting) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := n.WithWatch.List(ctx, list, opts...)
	n.note(err)
	return err
}

func (n noting) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	w, err := n.WithWatch.Watch(ctx, list, opts...)
	n.note(err)
	return w, err
}

// Listed returns nil if all objects have been listed, otherwise the reason. Callers must not decide anything
// before.
func (s *Addresses) Listed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.noteListed("VirtualMachineIPAddresses", s.addresses.listed),
		s.noteListed("VirtualMachineIPAddressLeases", s.leases.listed))
}

func (s *Addresses) noteListed(what string, listed <-chan struct{}) error {
	select {
	case <-listed:
		return nil
	default:
	}
	if err := s.failure[what]; err != nil {
		return fmt.Errorf("list %s: %w", what, err)
	}
	return fmt.Errorf("the list of %s has not been read yet", what)
}

// Await waits until all objects have been listed, or ctx is done.
func (s *Addresses) Await(ctx context.Context) {
	lists{s.addresses.listed, s.leases.listed}.awaitLists(ctx)
}
