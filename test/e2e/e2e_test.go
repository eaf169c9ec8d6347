package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"vmop/test/cluster"
	"vmop/test/tier"
)

// TestMain allows more parallel scenarios than there are processors, because most scenarios sometimes wait. With more
// than four, guests get too little processor time and take minutes to boot.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// scenario is a test from a user's view.
type scenario struct {
	name string
	run  func(*testing.T, *lab)
}

// TestCluster tests once what Kubernetes adds to a VM: the VM runs, is changed, survives its runner, and moves when its
// node is drained. Each test here has its own cluster. "make test" runs this test, "make test-all" runs all tests.
func TestCluster(t *testing.T) {
	l := newLab(t)
	sideBySide(t, l, []scenario{
		{"SeedExample", seedExample},
		{"LiveChanges", liveChanges},
		{"RunnerKilled", runnerKilled},
	})
	t.Run("DrainedNode", func(t *testing.T) { drainedNode(t, l) })
}

// TestOldestKubernetes runs one scenario of each kind with the oldest supported version of Kubernetes.
func TestOldestKubernetes(t *testing.T) {
	tier.Deep(t)
	l := newLabWith(t, cluster.Options{Oldest: true})
	sideBySide(t, l, []scenario{
		{"SeedExample", seedExample},
		{"LiveChanges", liveChanges},
		{"RunnerKilled", runnerKilled},
		{"Operations", operations},
		{"RegistryType", registryType},
		{"PluginOfKubectl", pluginOfKubectl},
		{"Migrations", migrations},
		{"Imports", imports},
		{"Attachments", attachments},
	})
	t.Run("DrainedNode", func(t *testing.T) { drainedNode(t, l) })
}

// TestVMs runs the scenarios about the life of VMs.
func TestVMs(t *testing.T) {
	tier.Deep(t)
	sideBySide(t, newLab(t), []scenario{
		{"RunnerAlone", runnerAlone},
		{"Examples", examples},
		{"Networks", networks},
		{"KVM", kvm},
		{"StopAndStart", stopAndStart},
		{"PodDeleted", podDeleted},
		{"GuestPowersOff", guestPowersOff},
		{"RunPolicies", runPolicies},
		{"Operations", operations},
		{"ApprovedRestarts", approvedRestarts},
		{"DeletedWhileStarting", deletedWhileStarting},
		{"DeletedWhileStopping", deletedWhileStopping},
		{"OrphanedAndAdopted", orphanedAndAdopted},
		{"Placement", placement},
	})
}

// TestTypesAndAccess runs the scenarios about VM types and access to VMs.
func TestTypesAndAccess(t *testing.T) {
	tier.Deep(t)
	sideBySide(t, newLab(t), []scenario{
		{"CustomType", customType},
		{"Arm64", onARM64},
		{"FaultyType", faultyType},
		{"RegistryType", registryType},
		{"TakenOver", takenOver},
		{"SecretsStay", secretsStay},
		{"MediumByPassword", mediumByPassword},
		{"ManagerReachesRunner", managerReachesRunner},
		{"PagesInABrowser", pagesInABrowser},
		{"CommandsOfOthers", commandsOfOthers},
		{"PluginOfKubectl", pluginOfKubectl},
		{"ServiceReachesGuest", serviceReachesGuest},
	})
}

// TestDisks runs the scenarios about disks and images, and about VMs that move with their disks.
func TestDisks(t *testing.T) {
	tier.Deep(t)
	sideBySide(t, newLab(t), []scenario{
		{"Migrations", migrations},
		{"LocalDisks", localDisks},
		{"Provisioning", provisioning},
		{"Exports", exports},
		{"Imports", imports},
		{"Attachments", attachments},
		{"AttachedImages", attachedImages},
		{"ContainerDisks", containerDisks},
		{"Images", images},
	})
}

// TestDisturbances runs the scenarios that disturb all others: failures, full nodes, and guests that need a processor
// for themselves.
func TestDisturbances(t *testing.T) {
	tier.Deep(t)
	l := newLab(t)
	for _, s := range []scenario{
		{"Twenty", twenty},
		{"KVMByPlugin", kvmByPlugin},
		{"Addresses", addresses},
		{"Fractions", fractions},
		{"ServerAway", serverAway},
		{"ManagerKilled", managerKilled},
		{"MigrationsInterrupted", migrationsInterrupted},
		{"TargetLost", targetLost},
		{"PowerCut", powerCut},
		{"Debian", debian},
		{"Snapshots", snapshots},
	} {
		t.Run(s.name, func(t *testing.T) { s.run(t, l) })
	}
}

// sideBySide runs independent scenarios at the same time.
func sideBySide(t *testing.T, l *lab, scenarios []scenario) {
	t.Helper()
	t.Run("SideBySide", func(t *testing.T) {
		for _, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.run(t, l)
			})
		}
	})
}
