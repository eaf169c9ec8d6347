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

// TestKubernetes has all scenarios, in one cluster.
func TestKubernetes(t *testing.T) {
	l := newLab(t)
	l.watchQEMUs(t)
	t.Run("SideBySide", func(t *testing.T) {
		for _, s := range []scenario{
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
			{"Migrations", migrations},
			{"LocalDisks", localDisks},
			{"ApprovedRestarts", approvedRestarts},
			{"DeletedWhileStarting", deletedWhileStarting},
			{"DeletedWhileStopping", deletedWhileStopping},
			{"OrphanedAndAdopted", orphanedAndAdopted},
			{"CustomType", customType},
			{"Arm64", onARM64},
			{"FaultyType", faultyType},
			{"RegistryType", registryType},
			{"TakenOver", takenOver},
			{"RunnerKilled", runnerKilled},
			{"SecretsStay", secretsStay},
			{"MediumByPassword", mediumByPassword},
			{"ManagerReachesRunner", managerReachesRunner},
			{"PagesInABrowser", pagesInABrowser},
			{"CommandsOfOthers", commandsOfOthers},
			{"PluginOfKubectl", pluginOfKubectl},
			{"Placement", placement},
			{"Provisioning", provisioning},
			{"Exports", exports},
			{"Imports", imports},
			{"Attachments", attachments},
			{"AttachedImages", attachedImages},
			{"ContainerDisks", containerDisks},
			{"Images", images},
			{"ServiceReachesGuest", serviceReachesGuest},
		} {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.run(t, l)
			})
		}
	})
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
