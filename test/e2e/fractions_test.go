package e2e_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
)

// busy makes two processes of a guest compute for a number of seconds of its clock, and prints the work that one of
// them has done.
const busy = `sh read s r </proc/uptime; end=$((${s%%.*}+%d)); (while :; do :; done) & n=0; ` +
	`while [ ${s%%.*} -lt $end ]; do n=$((n+1)); read s r </proc/uptime; done; kill $!; echo $n >/tmp/done`

// Two guests that could use all CPUs of a node receive shares in proportion to their coreFraction, according to the
// work that they count. The weights are 1 to 4 (docs/reference/classes.md).
func fractions(t *testing.T, l *lab) {
	of := func(name string, fraction v1.CoreFraction) *clusterVM {
		return l.create(t, tiny(name, func(s *v1.VirtualMachineSpec) {
			s.CPU, s.VM.MaximumCPUs = &v1.CPU{CoreFraction: fraction}, new(int32(2))
			s.NodeSelector = map[string]string{corev1.LabelHostname: "node2"}
		}))
	}
	small, large := of("small", "10%"), of("large", "40%")
	var guests []*console
	for _, v := range []*clusterVM{small, large} {
		v.runs()
		guests = append(guests, v.console().booted())
	}
	for v, milli := range map[*clusterVM]int64{small: 200, large: 800} {
		r := v.pod().Spec.Containers[0].Resources
		require.Equal(t, milli, r.Requests.Cpu().MilliValue())
		require.EqualValues(t, 2, r.Limits.Cpu().Value())
		require.Equal(t, corev1.PodQOSBurstable, v.pod().Status.QOSClass)
	}
	for attempt := 1; ; attempt++ { // a guest that begins late computes alone at the end
		for _, guest := range guests {
			guest.tell(fmt.Sprintf(busy, 20))
		}
		var did []float64
		for _, guest := range guests {
			text := guest.ask("cat /tmp/done")
			n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			require.NoError(t, err, text)
			did = append(did, n)
		}
		t.Logf("the guest with 40%% has done %.1f times what the one with 10%% has (%v)", did[1]/did[0], did)
		if did[1] > 2*did[0] {
			return
		}
		require.Less(t, attempt, 3)
	}
}
