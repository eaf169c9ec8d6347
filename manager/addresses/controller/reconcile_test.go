package controller

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "vmop/api/v1"
	"vmop/manager/addresses"
)

// The earliest of several waiting times decides when to look again.
func TestTheEarliestTimeToLookAgainWins(t *testing.T) {
	t.Parallel()
	for _, released := range [][]time.Duration{{9 * time.Minute, 2 * time.Minute}, {2 * time.Minute, 9 * time.Minute}} {
		w := newWorld(t, 1, 0, addresses.Range{CIDR: "10.66.10.0/27", Gateway: "10.66.10.1"})
		p := w.places[0]
		for i, name := range []string{"10.66.10.5", "10.66.10.6"} {
			lease := &v1.VirtualMachineIPAddressLease{}
			lease.Name = addresses.LeaseName(netip.MustParseAddr(name))
			lease.Spec.VirtualMachineIPAddressRef = v1.IPAddressRef{Namespace: p.name, Name: "gone"}
			at := metav1.NewTime(w.now.Add(-released[i]))
			lease.Status = v1.VirtualMachineIPAddressLeaseStatus{Phase: v1.LeaseReleased, ReleaseTime: &at}
			require.NoError(t, w.create(lease))
		}
		p.deliver(len(p.events))
		request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: p.name, Name: "gone"}}
		result, err := p.manager.Reconcile(t.Context(), request)
		require.NoError(t, err)
		require.Equal(t, reconcile.Result{RequeueAfter: time.Minute}, result, "they are kept for ten minutes")
	}
}
