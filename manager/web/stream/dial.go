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

// dialTime is the time limit for connecting to a runner.
const dialTime = 10 * time.Second

// A Target is the address and key of a runner, from the API server.
type Target struct {
	// Address is the IP address of the pod and the runner's port.
	Address string
	// Key is the hash of the runner's public key (remote.KeyHash).
	Key string
}

// ErrUnreachable means that the status of a VM doesn't contain the address of its runner.
var ErrUnreachable = errors.New("the runner cannot be reached")

// TargetOf returns the runner of a VM, in the pod with this UID and IP address. The error is ErrUnreachable with the
// reason.
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

// ArrivingOf returns the runner that waits for the guest of a VM during a migration, in the pod with this UID and IP
// address. The error is ErrUnreachable with the reason.
func ArrivingOf(vm *v1.VirtualMachine, pod types.UID, ip string) (Target, error) {
	of := vm.Status.Arriving
	if ip == "" || of == nil || of.PodUID != pod || of.Control == nil {
		return Target{}, fmt.Errorf("%w: the guest's target pod has not reported yet", ErrUnreachable)
	}
	return Target{Address: net.JoinHostPort(ip, strconv.Itoa(int(of.Control.Port))), Key: of.Control.Key}, nil
}

// ErrOther means that the server at the address is not the runner of the VM.
var ErrOther = errors.New("this is not the runner of the VM: it has another key than the VM's status")

// Dial connects to a runner. It doesn't wait for the runner to accept the manager's certificate: if the runner refuses
// it, the first read fails.
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
		InsecureSkipVerify: true, // VerifyConnection checks the key instead, which no authority signs
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

// Client returns a client of a runner for a user. Other users see the user's name, which may be empty.
func (k *Keys) Client(to Target, user string) *control.Client {
	return control.NewClient(func(ctx context.Context) (net.Conn, error) { return k.Dial(ctx, to) }, user)
}

// Bounded returns a client of a runner with a size limit for answers, header included: a guest may have taken over its
// runner.
func (k *Keys) Bounded(to Target, bytes int) *control.Client {
	return control.NewClient(func(ctx context.Context) (net.Conn, error) {
		conn, err := k.Dial(ctx, to)
		if err != nil {
			return nil, err
		}
		return &bounded{Conn: conn, most: bytes, left: bytes}, nil
	}, "")
}

// bounded is a connection with a limit for the data read from it.
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

// Kill ends the machine of a VM without a shutdown of the guest, in the name of a user.
func (k *Keys) Kill(ctx context.Context, vm *v1.VirtualMachine, pod *corev1.Pod, user string) error {
	target, err := TargetOf(vm, pod.UID, pod.Status.PodIP)
	if err != nil {
		return err
	}
	return k.Client(target, user).Act(ctx, control.Kill)
}
