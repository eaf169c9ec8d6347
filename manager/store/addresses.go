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

// Addresses has the address objects of one namespace, and the leases of the whole cluster. It
// is apart from the Store, as a manager works without it. Its methods may be called by several
// goroutines.
type Addresses struct {
	namespace string
	addresses *collection[*v1.VirtualMachineIPAddress]
	leases    *collection[*v1.VirtualMachineIPAddressLease]

	mu      sync.Mutex
	failure map[string]error // of the last attempt to list, by what
}

// NewAddresses returns one that is empty. changed is called for each address object of the
// namespace that is new, has changed, or is gone, or whose lease has; vm is the VM that has the
// address, or had it, if that is known. freed is called with the name of each lease that is gone.
func NewAddresses(namespace string, changed func(address, vm string), freed func(lease string)) *Addresses {
	by := newCompressor()
	s := &Addresses{namespace: namespace, failure: map[string]error{}}
	s.addresses = newCollection(addressEncoding(namespace), by, func(name string, r record) { changed(name, r.group) })
	s.leases = newCollection(leaseEncoding(namespace), by, func(name string, r record) {
		if r.group != "" {
			changed(r.group, "")
		}
		if !s.leases.has(name) || r.group != "" {
			freed(name)
		}
	})
	return s
}

// addressEncoding is how address objects are kept: as JSON, found by the VM that has them.
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

// leaseEncoding is how leases are kept: those of the namespace found by the address object
// that they are for. Of the others it is known that they are there.
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

// Address returns an address object; nil if there is none of that name.
func (s *Addresses) Address(name string) (*v1.VirtualMachineIPAddress, error) {
	return s.addresses.get(name)
}

// Lease returns the lease of an address; nil if there is none. Of another namespace's only
// that is known, whose it is.
func (s *Addresses) Lease(of netip.Addr) (*v1.VirtualMachineIPAddressLease, error) {
	return s.leases.get(addresses.LeaseName(of))
}

// Leased reports whether an address has a lease.
func (s *Addresses) Leased(address netip.Addr) bool {
	return s.leases.has(addresses.LeaseName(address))
}

// LeasesFor returns the leases that are for an address object.
func (s *Addresses) LeasesFor(name string) (found []*v1.VirtualMachineIPAddressLease, err error) {
	for _, lease := range s.leases.irregularNames(name) {
		l, err := s.leases.get(lease)
		if err != nil {
			return nil, err
		}
		if l != nil {
			found = append(found, l)
		}
	}
	return found, nil
}

// Of returns the names of the address objects that a VM has.
func (s *Addresses) Of(vm string) []string { return s.addresses.irregularNames(vm) }

// Names returns the names of all address objects, and of those that are gone and have leases.
func (s *Addresses) Names() []string {
	names := s.addresses.names()
	s.leases.each(func(_ string, r record) {
		if r.group != "" && !s.addresses.has(r.group) {
			names = append(names, r.group)
		}
	})
	return names
}

// Learn stores what a write has returned, unless the watch has brought that or later.
func (s *Addresses) Learn(object client.Object) error {
	switch o := object.(type) {
	case *v1.VirtualMachineIPAddress:
		return s.addresses.learn(o)
	case *v1.VirtualMachineIPAddressLease:
		return s.leases.learn(o)
	}
	return errors.New("store an object: there is no collection of its kind")
}

// Forget removes what a write has found to be gone.
func (s *Addresses) Forget(object client.Object) error {
	switch o := object.(type) {
	case *v1.VirtualMachineIPAddress:
		return s.addresses.forget(o)
	case *v1.VirtualMachineIPAddressLease:
		return s.leases.forget(o)
	}
	return errors.New("remove an object from the store: there is no collection of its kind")
}

// Listing stores a first list of everything, as a watch does. It is for tests without an API
// server.
func (s *Addresses) Listing(ofAddresses []*v1.VirtualMachineIPAddress,
	ofLeases []*v1.VirtualMachineIPAddressLease,
) error {
	return errors.Join(replace(s.addresses, ofAddresses), replace(s.leases, ofLeases))
}

func replace[T client.Object](c *collection[T], all []T) error {
	list := make([]any, 0, len(all))
	for _, o := range all {
		list = append(list, o)
	}
	return c.Replace(list, "")
}

// Follow keeps the addresses as the API server has them, until ctx is done.
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
	follow(ctx, &running, noted("VirtualMachineIPAddresses"), s.namespace, s.addresses, client.ListOptions{},
		&v1.VirtualMachineIPAddress{}, func() client.ObjectList { return &v1.VirtualMachineIPAddressList{} })
	follow(ctx, &running, noted("VirtualMachineIPAddressLeases"), "", s.leases, client.ListOptions{},
		&v1.VirtualMachineIPAddressLease{}, func() client.ObjectList { return &v1.VirtualMachineIPAddressLeaseList{} })
}

// noting notes how lists and watches begin.
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

// Listed returns nil if all has been listed, else why not: nothing may be decided before.
func (s *Addresses) Listed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.listed("VirtualMachineIPAddresses", s.addresses.listed),
		s.listed("VirtualMachineIPAddressLeases", s.leases.listed))
}

func (s *Addresses) listed(what string, listed <-chan struct{}) error {
	select {
	case <-listed:
		return nil
	default:
	}
	if err := s.failure[what]; err != nil {
		return fmt.Errorf("list %s: %w", what, err)
	}
	return fmt.Errorf("the list of %s is not there yet", what)
}

// Await waits until all has been listed, or ctx is done.
func (s *Addresses) Await(ctx context.Context) {
	lists{s.addresses.listed, s.leases.listed}.await(ctx)
}
