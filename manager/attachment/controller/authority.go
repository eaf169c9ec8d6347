package controller

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/diskimage/nbd"
	"vmop/manager/vm/objects"
)

// certificateAuthority returns the VM's certificate authority, which signs the certificates of its exports. It is
// created together with the VM's own certificate when the first disk is attached.
func (r *round) certificateAuthority() (*nbd.Authority, error) {
	if r.memory.authority != nil {
		return r.memory.authority, nil
	}
	made, err := nbd.NewAuthority("disks of the VM "+r.Name, r.opts.Now())
	if err != nil {
		return nil, err
	}
	own, err := made.Pair()
	if err != nil {
		return nil, err
	}
	certificate, err := made.Client(r.opts.Now())
	if err != nil {
		return nil, err
	}
	configuration, err := objects.DiskTLS(r.VM, own, certificate, r.opts.Settings())
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{}
	err = r.createFrom(r.ctx, configuration, secret)
	if err == nil {
		r.memory.authority, r.memory.tls = made, secret.ResourceVersion
		return made, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create the Secret %s: %w", objects.DiskTLSName(r.Name), err)
	}
	return r.knownAuthority()
}

// knownAuthority reads the authority that an earlier manager has created.
func (r *round) knownAuthority() (*nbd.Authority, error) {
	secret, name := &corev1.Secret{}, objects.DiskTLSName(r.Name)
	if err := r.opts.Live.Get(r.ctx, client.ObjectKey{Namespace: r.opts.Namespace, Name: name}, secret); err != nil {
		return nil, fmt.Errorf("read the Secret %s: %w", name, err)
	}
	if !metav1.IsControlledBy(secret, r.VM) {
		return nil, errTaken{"Secret", name, "of the VM " + r.Name}
	}
	known, err := nbd.ReadAuthority(nbd.Pair{
		Certificate: secret.Data[objects.AuthorityCertificateKey], Key: secret.Data[objects.AuthorityKeyKey],
	})
	if err != nil {
		return nil, fmt.Errorf("the Secret %s: %w", name, err)
	}
	r.memory.authority = known
	return known, nil
}
