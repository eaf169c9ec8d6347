package config

import (
	"fmt"
	"net"
	"net/netip"
)

// ReceiveVariable of the environment has the name of the migration by which the runner of a pod gets
// its guest from another pod; where it is not set, the runner starts the VM. PodIPVariable has the
// address of the pod.
const (
	ReceiveVariable = "RECEIVE_MIGRATION"
	PodIPVariable   = "POD_IP"
)

// Receive returns the name of the migration, "" if there is none, and where its target listens, HOST:PORT
// with any port that is free.
func Receive(getenv func(string) string) (migration, address string, err error) {
	if migration = getenv(ReceiveVariable); migration == "" {
		return "", "", nil
	}
	ip, err := netip.ParseAddr(getenv(PodIPVariable))
	if err != nil {
		return "", "", fmt.Errorf("the environment's %s is %q, where %s is set: want the pod's address", PodIPVariable,
			getenv(PodIPVariable), ReceiveVariable)
	}
	return migration, net.JoinHostPort(ip.String(), "0"), nil
}
