package follow

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/disks"
	"vmop/runner/machine"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/runner/status/service"
	"vmop/test/folder"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
)

// The test program evaluates types in separate processes, like the real programs.
func TestMain(m *testing.M) {
	evaluate.Serve(context.Background(), nil)
	os.Exit(m.Run())
}

// A running VM is compared with the free huge pages at its start, because a host's free huge pages change all the time.
func TestFreeHugePagesAreNoPendingChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	configure := func(boot string) {
		folder.Fill(t, dir, folder.Files{"config.yaml": `"/Runner": {vmType: huge, dataDir: data, runtimeDir: run,
			vm: {name: x, accelerator: tcg, network: [], bootMenu: ` + boot + `}}`})
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "types"), 0o700))
	folder.Fill(t, dir, folder.Files{"types/huge.star": `
def launch(vm, host):
    if host.hugePages[2097152] != 777:
        fail("these are not the pages of the start: %s" % host.hugePages)
    return part(executable = "/bin/true", options = [option("-boot", None, {"menu": vm.bootMenu})])
`})
	configure("false")
	options := prepare.Options{ConfigFile: filepath.Join(dir, "config.yaml"), VMTypes: filepath.Join(dir, "types")}
	running, err := prepare.Open(options.ConfigFile)
	require.NoError(t, err)
	running.Facts.Topology = &vmtypes.Topology{CPUs: []int{0}, HugePages: map[int64]int64{2 << 20: 777}}
	require.NoError(t, running.Complete(t.Context(), options, false))
	configure("true")
	read, err := prepare.Open(options.ConfigFile)
	require.NoError(t, err)
	wanted, err := running.Renewed(t.Context(), read.Config)
	require.NoError(t, err)

	c := &Config{Running: running, Wanted: running, Options: options}
	e := c.newEvaluation(t.Context())
	pending, err := e.pendingChanges(t.Context(), wanted)
	require.NoError(t, err)
	require.Len(t, pending.Changes, 1)
	require.Equal(t, "vm.bootMenu", pending.Changes[0].Path)
	e.close()
	follows(t, Config{Running: running, Wanted: running, Options: options}, configure)
}

// driver records its calls.
type driver struct {
	read    chan machine.Reading
	pending chan status.Pending
}

func (d driver) Configured(r machine.Reading)                { d.read <- r }
func (d driver) AwaitRestart(list status.Pending, err error) { d.pending <- list }

// follows requires that changes, errors and requested rereads of a configuration are followed until the context ends.
func follows(t *testing.T, cfg Config, configure func(string)) {
	t.Helper()
	d := driver{make(chan machine.Reading, 9), make(chan status.Pending, 9)}
	reread := make(chan struct{})
	log := slog.New(slog.DiscardHandler)
	cfg.Driver, cfg.Log, cfg.Service, cfg.Reread, cfg.Adopted = d, log, service.New(nil, log), reread, true
	cfg.Sizes = disks.New(nil, nil, log)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Run(ctx, cfg)
	}()
	require.Empty(t, (<-d.read).Err, "it is another than what was wanted last")
	require.Len(t, (<-d.pending).Changes, 1)
	configure("neither")
	fault := (<-d.read).Err
	require.Contains(t, fault, "vm.bootMenu")
	reread <- struct{}{}
	require.Equal(t, fault, (<-d.read).Err, "it is reported again, as it was asked for")
	configure("false")
	require.Empty(t, (<-d.read).Err)
	require.Empty(t, (<-d.pending).Changes)
	cancel()
	<-ended
}
