package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/internal/keepalive"
	"vmop/runner/control"
	"vmop/runner/control/remote"
)

// dialTime bounds the time until a runner is connected.
const dialTime = 10 * time.Second

// A Target is a runner, as the API server knows it.
type Target struct {
	// Address is the IP address of the pod, with the runner's port.
	Address string
	// Key is the hash of the runner's public key (remote.KeyHash).
	Key string
}

// ErrUnreachable means that the status of a VM does not say where its runner is.
var ErrUnreachable = errors.New("the runner cannot be reached")

// TargetOf returns the runner of a VM whose pod has this uid and IP address. The error is
// ErrUnreachable, and says why.
func TargetOf(vm *v1.VirtualMachine, pod types.UID, ip string) (Target, error) {
	runner := vm.Status.Runner
	switch {
	case ip == "":
		return Target{}, fmt.Errorf("%w: its pod has no address yet", ErrUnreachable)
	case runner == nil || runner.PodUID != pod:
		return Target{}, fmt.Errorf("%w: it has not reported yet", ErrUnreachable)
	case runner.Control == nil:
		return Target{}, fmt.Errorf("%w: it has no port for the manager, because it is older or could not listen", ErrUnreachable)
	}
	return Target{
		Address: net.JoinHostPort(ip, strconv.Itoa(int(runner.Control.Port))), Key: runner.Control.Key,
	}, nil
}

// ArrivingOf returns the runner that waits for the guest of a VM, in a pod with this uid and IP address. The error is
// ErrUnreachable, and says why.
func ArrivingOf(vm *v1.VirtualMachine, pod types.UID, ip string) (Target, error) {
	of := vm.Status.Arriving
	if ip == "" || of == nil || of.PodUID != pod || of.Control == nil {
		return Target{}, fmt.Errorf("%w: the pod to which the guest is to move has not reported yet", ErrUnreachable)
	}
	return Target{Address: net.JoinHostPort(ip, strconv.Itoa(int(of.Control.Port))), Key: of.Control.Key}, nil
}

// ErrOther means that what answers is not the runner of the VM.
var ErrOther = errors.New("this is not the runner of the VM: it has another key than the VM's status")

// Dial connects to a runner. It does not wait for the runner to accept the manager: if it
// refuses, the first read fails.
func (k *Keys) Dial(ctx context.Context, to Target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	connect := k.Connect
	if connect == nil {
		connect = keepalive.Minute.Dialer().DialContext
	}
	conn, err := connect(ctx, "tcp", to.Address)
	if err != nil {
		return nil, fmt.Errorf("connect to the runner at %s: %w", to.Address, err)
	}
	secured := tls.Client(conn, &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}, GetClientCertificate: k.clientCertificate,
		InsecureSkipVerify: true, // the key is checked instead, which no authority has to vouch for
		VerifyConnection: func(state tls.ConnectionState) error {
			if remote.KeyHash(state.PeerCertificates[0]) != to.Key {
				return ErrOther
			}
			return nil
		},
	})
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the runner at %s: %w", to.Address, err), conn.Close())
	}
	return secured, nil
}

// Client returns a client of a runner, for a user whose name other users see; it may be empty.
func (k *Keys) Client(to Target, user string) *control.Client {
	return control.NewClient(func(ctx context.Context) (net.Conn, error) { return k.Dial(ctx, to) }, user)
}

// Bounded returns a client of a runner whose answers have at most so many bytes, header included: a guest may have
// broken out into the runner.
func (k *Keys) Bounded(to Target, bytes int) *control.Client {
	return control.NewClient(func(ctx context.Context) (net.Conn, error) {
		conn, err := k.Dial(ctx, to)
		if err != nil {
			return nil, err
		}
		return &bounded{Conn: conn, most: bytes, left: bytes}, nil
	}, "")
}

// bounded is a connection from which only so many bytes are read.
type bounded struct {
	net.Conn
	most, left int
}

// Read implements net.Conn.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, fmt.Errorf("the runner's answer is longer than %d bytes", b.most)
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// Kill ends the machine of a VM in its pod without asking the guest, in the name of a user.
func (k *Keys) Kill(ctx context.Context, vm *v1.VirtualMachine, pod *corev1.Pod, user string) error {
	target, err := TargetOf(vm, pod.UID, pod.Status.PodIP)
	if err != nil {
		return err
	}
	return k.Client(target, user).Act(ctx, control.Kill)
}
