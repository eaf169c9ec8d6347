package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain lets more scenarios run at a time than there are processors, as most wait now and then. With more
// than these the processors are busy anyway, and guests that get too little of them take minutes to boot.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A scenario is what a user lives through.
type scenario struct {
	name string
	run  func(*testing.T, *lab)
}

// TestVMs has what happens to VMs. Each test here has a cluster of its own: make runs them one by one, and repeats
// only what hasn't passed.
func TestVMs(t *testing.T) {
	sideBySide(t, []scenario{
		{"RunnerAlone", runnerAlone},
		{"Examples", examples},
		{"Networks", networks},
		{"KVM", kvm},
		{"SeedExample", seedExample},
		{"LiveChanges", liveChanges},
		{"StopAndStart", stopAndStart},
		{"PodDeleted", podDeleted},
		{"GuestPowersOff", guestPowersOff},
		{"RunPolicies", runPolicies},
		{"Operations", operations},
		{"ApprovedRestarts", approvedRestarts},
		{"DeletedWhileStarting", deletedWhileStarting},
		{"DeletedWhileStopping", deletedWhileStopping},
		{"OrphanedAndAdopted", orphanedAndAdopted},
		{"RunnerKilled", runnerKilled},
		{"Placement", placement},
	})
}

// TestTypesAndAccess has VM types, and the ways to a VM.
func TestTypesAndAccess(t *testing.T) {
	sideBySide(t, []scenario{
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

// TestDisks has disks and images, and VMs that move with theirs.
func TestDisks(t *testing.T) {
	sideBySide(t, []scenario{
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

// TestDisturbances has what disturbs all others: faults, full nodes, and guests that need a processor for themselves.
func TestDisturbances(t *testing.T) {
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
		{"DrainedNode", drainedNode},
		{"PowerCut", powerCut},
		{"Debian", debian},
		{"Snapshots", snapshots},
	} {
		t.Run(s.name, func(t *testing.T) { s.run(t, l) })
	}
}

// sideBySide runs scenarios that don't disturb each other.
func sideBySide(t *testing.T, scenarios []scenario) {
	t.Helper()
	l := newLab(t)
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.run(t, l)
		})
	}
}
