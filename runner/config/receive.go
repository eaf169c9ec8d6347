package config

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// ReceiveVariable of the environment has the name of the migration by which the runner of a pod gets
// its guest from another pod; where it is not set, the runner starts the VM. PodIPVariable has the
// address of the pod, and CopiesVariable the disks that are copied to there: paths of files or devices, with
// CopiesSeparator between them.
const (
	ReceiveVariable = "RECEIVE_MIGRATION"
	PodIPVariable   = "POD_IP"
	CopiesVariable  = "RECEIVE_COPIES"
	CopiesSeparator = ":"
)

// Copies returns the disks that are copied to where the runner is.
func Copies(getenv func(string) string) []string {
	text := getenv(CopiesVariable)
	if text == "" {
		return nil
	}
	return strings.Split(text, CopiesSeparator)
}

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
