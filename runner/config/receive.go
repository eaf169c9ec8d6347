package config

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Environment variables of a runner in a pod that receives its guest from another pod:
//
//   - ReceiveVariable contains the name of the migration; without it, the runner starts the VM.
//   - PodIPVariable contains the address of the pod.
//   - CopiesVariable contains the disks to copy to the pod: paths of files or devices, separated by
//     CopiesSeparator.
const (
	ReceiveVariable = "RECEIVE_MIGRATION"
	PodIPVariable   = "POD_IP"
	CopiesVariable  = "RECEIVE_COPIES"
	CopiesSeparator = ":"
)

// Copies returns the disks to copy to the runner's host.
func Copies(getenv func(string) string) []string {
	text := getenv(CopiesVariable)
	if text == "" {
		return nil
	}
	return strings.Split(text, CopiesSeparator)
}

// Receive returns the name of the migration, "" without a migration, and the address HOST:PORT for its target to
// listen at, with any free port.
func Receive(getenv func(string) string) (migration, address string, err error) {
	if migration = getenv(ReceiveVariable); migration == "" {
		return "", "", nil
	}
	ip, err := netip.ParseAddr(getenv(PodIPVariable))
	if err != nil {
		return "", "", fmt.Errorf("the environment's %s is %q, but %s is set: must be the pod's address", PodIPVariable,
			getenv(PodIPVariable), ReceiveVariable)
	}
	return migration, net.JoinHostPort(ip.String(), "0"), nil
}
