package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/manager/vm/objects"
	"vmop/qmp"
)

func newBundle(f *flags) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "support-bundle NAME", Short: "Collect diagnostic data in a file", GroupID: groupLook,
		Long: "Collect diagnostic data in NAME-support.tar.gz: the definition without cloud-init data,\n" +
			"the pod, claims and events, the runner's log, status, metrics and plan, and QEMU's\n" +
			"answers to query commands. Passwords in addresses are removed. Items that could not be\n" +
			"collected are listed in errors.txt. Review the bundle before you share it.",
	}
	f.oneVM(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "",
		"`FILE` to write to; - is standard output (default NAME-support.tar.gz)")
	cli.CompleteFile(cmd, "file", "gz")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, vm, err := f.findVM(cmd, args)
		if err != nil {
			return err
		}
		b := &bundle{files: map[string][]byte{}, passwords: passwordsInAddresses()}
		b.collectFiles(cmd.Context(), c, vm)
		var text bytes.Buffer
		if err := b.writeArchive(&text, vm.Name+"-support/", time.Now()); err != nil {
			return err
		}
		if file == "-" {
			_, err := cmd.OutOrStdout().Write(text.Bytes())
			return err
		}
		file = firstOf(file, vm.Name+"-support.tar.gz")
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			return fmt.Errorf("save the bundle: %w", err)
		}
		cmd.PrintErrln(file)
		return nil
	}
	return cmd
}

// bundle contains files for a support engineer.
type bundle struct {
	mu    sync.Mutex
	files map[string][]byte

	passwords *regexp.Regexp
}

// addFile stores a file, or the error of creating it.
func (b *bundle) addFile(name string, text []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.files["errors.txt"] = fmt.Appendf(b.files["errors.txt"], "%s: %s\n", name, cli.Printable(errorText(err)))
	}
	if len(text) > 0 {
		b.files[name] = b.passwords.ReplaceAll(text, []byte("${1}***@"))
	}
}

// addYAML stores an object as YAML.
func (b *bundle) addYAML(name string, object any, err error) {
	if err != nil {
		b.addFile(name, nil, err)
		return
	}
	text, err := yaml.Marshal(object)
	b.addFile(name, text, err)
}

// passwordsInAddresses matches the user and password in addresses.
func passwordsInAddresses() *regexp.Regexp {
	return regexp.MustCompile(`([a-zA-Z][-+.a-zA-Z0-9]*://)[^/@\s"']+@`)
}

// concurrent is the maximum number of concurrent requests.
const concurrent = 6

// collectFiles creates all files.
func (b *bundle) collectFiles(ctx context.Context, c *cluster, vm *v1.VirtualMachine) {
	b.addYAML("definition.yaml", withoutSecrets(vm), nil)
	claims, err := c.claimsOf(ctx, vm.Name)
	for i := range claims {
		claims[i].ManagedFields = nil
	}
	b.addYAML("claims.yaml", claims, err)
	subjects, err := c.eventSubjects(ctx, vm)
	b.addFile("events.txt", nil, err)
	events, err := c.eventsOf(ctx, subjects)
	var list bytes.Buffer
	for _, e := range events {
		row := append([]string{lastSeen(e).UTC().Format(time.RFC3339)}, eventRow(e, time.Now())[1:]...)
		_ = cli.Table(&list, [][]string{row}) // a buffer never fails
	}
	b.addFile("events.txt", list.Bytes(), err)
	p, err := podOf(vm)
	if err != nil {
		b.addFile("pod.yaml", nil, err)
		return
	}
	if object, err := c.core.Pods(c.namespace).Get(ctx, p.Name, metav1.GetOptions{}); err != nil {
		b.addFile("pod.yaml", nil, err)
	} else {
		object.ManagedFields = nil
		b.addYAML("pod.yaml", object, nil)
	}
	for file, previous := range map[string]bool{"log.txt": false, "log-previous.txt": true} {
		text, err := c.core.Pods(c.namespace).GetLogs(p.Name, &corev1.PodLogOptions{
			Container: objects.ContainerName, Previous: previous,
		}).DoRaw(ctx)
		if previous && err != nil {
			continue // no previous log
		}
		b.addFile(file, text, err)
	}
	b.queryRunner(ctx, c, vm)
}

// queryRunner queries the runner and QEMU.
func (b *bundle) queryRunner(ctx context.Context, c *cluster, vm *v1.VirtualMachine) {
	client := c.runnerClient(ctx, vm)
	var group errgroup.Group
	group.SetLimit(concurrent)
	ask := func(name string, get func(context.Context, io.Writer) error) {
		group.Go(func() error {
			ctx, cancel := boundRequest(ctx)
			defer cancel()
			var text bytes.Buffer
			err := get(ctx, &text)
			b.addFile(name, text.Bytes(), err)
			return nil
		})
	}
	ask("plan.txt", func(ctx context.Context, w io.Writer) error { return client.Plan(ctx, w, "why") })
	ask("metrics.txt", client.Metrics)
	ask("status.json", func(ctx context.Context, w io.Writer) error {
		s, err := client.Status(ctx)
		return errors.Join(err, cli.PrintValue(w, "json", s))
	})
	for _, command := range readOnlyQueries() {
		ask("qmp/"+command+".json", func(ctx context.Context, w io.Writer) error {
			answer, err := client.QMP(ctx, qmp.Command{Execute: command})
			var refused *qmp.Error
			if errors.As(err, &refused) {
				_, err = io.WriteString(w, refused.Error()+"\n") // QEMU lacks the device, for example
				return err
			}
			return errors.Join(err, cli.PrintValue(w, "json", answer))
		})
	}
	_ = group.Wait() // the functions return no errors
}

// readOnlyQueries returns the read-only commands of QMP.
func readOnlyQueries() []string {
	return []string{
		"query-balloon", "query-block", "query-block-jobs", "query-blockstats", "query-chardev", "query-cpus-fast",
		"query-hotpluggable-cpus", "query-iothreads", "query-jobs", "query-kvm", "query-memdev", "query-memory-devices",
		"query-memory-size-summary", "query-migrate", "query-name", "query-named-block-nodes", "query-pci",
		"query-rx-filter", "query-spice", "query-status", "query-tpm", "query-version", "query-vnc-servers",
	}
}

// removed replaces data that may contain secrets.
const removed = `"(removed)"`

// withoutSecrets returns a VM without data that may contain secrets: cloud-init data, passwords in addresses, and
// kubectl's copy of them.
func withoutSecrets(vm *v1.VirtualMachine) *v1.VirtualMachine {
	out := vm.DeepCopy()
	out.ManagedFields = nil
	delete(out.Annotations, corev1.LastAppliedConfigAnnotation)
	if ci := out.Spec.CloudInit; ci != nil {
		for key := range ci.MetaData {
			ci.MetaData[key] = "(removed)"
		}
		for _, data := range []**runtime.RawExtension{&ci.UserData, &ci.VendorData, &ci.NetworkConfig} {
			if *data != nil {
				*data = &runtime.RawExtension{Raw: []byte(removed)}
			}
		}
	}
	if p := out.Spec.Provisioning; p != nil && p.UserData != nil {
		p.UserData = new("(removed)")
	}
	if o := out.Spec.VM.Options; o != nil {
		var options map[string]json.RawMessage
		if json.Unmarshal(o.Raw, &options) != nil {
			o.Raw = []byte("{}")
			return out
		}
		for name := range options {
			options[name] = json.RawMessage(removed)
		}
		o.Raw, _ = json.Marshal(options) // strings can be encoded
	}
	return out
}

// writeArchive writes the files as an archive below a folder.
func (b *bundle) writeArchive(w io.Writer, folder string, now time.Time) error {
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		header := &tar.Header{Name: folder + name, Mode: 0o600, Size: int64(len(b.files[name])), ModTime: now}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("write the bundle: %w", err)
		}
		if _, err := archive.Write(b.files[name]); err != nil {
			return fmt.Errorf("write the bundle: %w", err)
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	return nil
}
