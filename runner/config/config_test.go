package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"vmop/internal/yamlfile"
	"vmop/vmspec"
)

// parse reads a valid file.
func parse(t *testing.T, lines ...string) (*Config, []yamlfile.Warning) {
	t.Helper()
	c, warnings, err := Parse("config.yaml", []byte(strings.Join(lines, "\n")))
	require.NoError(t, err)
	return c, warnings
}

// parseVM reads a vm section and adds the name.
func parseVM(t *testing.T, lines ...string) vmspec.Spec {
	t.Helper()
	text := []string{"/Runner:", "  vm:", "    name: test"}
	for _, line := range lines {
		text = append(text, "    "+line)
	}
	c, warnings := parse(t, text...)
	require.Empty(t, warnings)
	return c.VM
}

// everyKey is a file with all keys of a section except for the original system's keys.
const everyKey = `
"/Runner":
  dataDir: /var/local/vm-data
  runtimeDir: /run/test
  imageRepository: /images
  nbdCertificates: /nbd
  drivesRevision: 7
  namespace: default
  guestShutdownStops: true
  sysprep: {directory: answers}
  crashStops: true
  resetCounter: 3
  provisioned: true
  generation: 5
  vmType: hugepages
  updateVmType: true
  cloudInit:
    metaData: {local-hostname: guest}
    userData: {password: secret}
    networkConfig: {version: 2}
    vendorData: {packages: [vim]}
  vm:
    name: test
    uuid: 2d5e8b6c-5a0f-4c4e-9d3a-6f1b0c7a9e21
    machineType: q35
    accelerator: tcg
    firmware: secure-4m
    bootMenu: true
    kernel: {image: /vmlinuz, initrd: /initrd, commandLine: console=ttyS0}
    useTpm: true
    cpuModel: max
    maximumCpus: 16
    currentCpus: 2
    sockets: 2
    diesPerSocket: 2
    coresPerDie: 2
    threadsPerCore: 2
    maximumRam: 8Gi
    currentRam: 4 GiB
    rtcBase: 2026-03-01
    rtcClock: vm
    powerdownTimeout: 60
    network:
      - {type: user, device: e1000e, mac: "52:54:00:12:34:56", net: 10.0.3.0/24, ports: [{protocol: udp, address: 127.0.0.1, host: 8053, guest: 53}], hostLoopback: true}
      - {type: masquerade, mac: "52:54:00:12:34:57", allPorts: {keep: [7443]}}
      - type: tap
        bridge: br1
        ifname: tap7
        link: down
        lease:
          address: 10.66.10.14/24
          gateway: 10.66.10.1
          nameservers: {addresses: [10.66.10.1], search: [example.org]}
          routes: [{to: 10.7.0.0/16, via: 10.66.10.2}]
        filter: false
    drives:
      - {type: raw, bootindex: 0, file: /a.qcow2, format: qcow2, readOnly: true}
      - {type: ide-cd, bus: scsi, file: https://example.org/boot.iso}
      - device: /dev/vg/b
      - resource: /c
        cache: none
        aio: native
        iothread: true
        discard: ignore
        detectZeroes: on
        logicalBlockSize: 4096
        physicalBlockSize: 8192
        rotationRate: 7200
        limits: {iopsRead: 100, iopsWrite: 50, bytes: 1 MiB}
      - resource: /e
        iothread: shared
        limits: {iops: 10, bytesRead: 2 MiB, bytesWrite: 1 MiB}
      - {file: /d, size: 2 GiB, serial: data, source: https://example.org/d, sourceChecksum: "md5:00112233445566778899aabbccddeeff"}
      - {serial: far, nbd: {host: disks, port: 10810, export: far, tls: /nbd}}
    display:
      outputs: 2
      loggedInUser: test
      withoutPassword: true
      spice: {port: 5901, address: "::1", streamingVideo: off, usbRedirects: 0}
      vnc: {port: 5902, address: 127.0.0.1}
    serialConsole: {enabled: false, log: /var/log/serial}
    options:
      pages: 4
      share: 1.5
      on: yes
      "off": no
      nothing:
      nodes: [{id: 0}, x, 2026-03-01, true]
`

func TestEveryKey(t *testing.T) {
	t.Parallel()
	c, warnings := parse(t, everyKey)
	require.Empty(t, warnings)
	require.Equal(t, yaml.MappingNode, c.CloudInit.UserData.Kind)
	c.CloudInit, c.document, c.text = nil, nil, nil
	require.Equal(t, &Config{
		DataDir: "/var/local/vm-data", RuntimeDir: "/run/test", ImageRepository: "/images", Namespace: "default",
		NBDCertificates: "/nbd", DrivesRevision: 7,
		GuestShutdownStops: true, CrashStops: true, Sysprep: &Sysprep{Directory: "answers"},
		ResetCounter: new(int64(3)), Generation: 5, Provisioned: true, VMType: "hugepages", UpdateVMType: true,
		VM: vmspec.Spec{
			Name: "test", UUID: "2d5e8b6c-5a0f-4c4e-9d3a-6f1b0c7a9e21",
			MachineType: "q35", Accelerator: vmspec.AcceleratorTCG, Firmware: vmspec.FirmwareSecure4M, BootMenu: true,
			Kernel: &vmspec.Kernel{Image: "/vmlinuz", Initrd: "/initrd", CommandLine: "console=ttyS0"}, UseTPM: true,
			CPUModel: "max", MaximumCPUs: 16, CurrentCPUs: 2, Sockets: 2, DiesPerSocket: 2, CoresPerDie: 2,
			ThreadsPerCore: 2,
			MaximumRAM:     8 * vmspec.GiB, CurrentRAM: 4 * vmspec.GiB,
			RTCBase: "2026-03-01", RTCClock: "vm", PowerdownTimeout: new(vmspec.Seconds(60)),
			Network: []vmspec.Network{
				{
					Type: vmspec.NetworkUser, Device: "e1000e", MAC: "52:54:00:12:34:56", Net: "10.0.3.0/24",
					Ports:        []vmspec.PortForward{{Protocol: "udp", Address: "127.0.0.1", Host: 8053, Guest: 53}},
					HostLoopback: true,
				},
				{
					Type: vmspec.NetworkMasquerade, MAC: "52:54:00:12:34:57",
					AllPorts: &vmspec.AllPorts{Keep: []int{7443}},
				},
				{
					Type: vmspec.NetworkTap, Bridge: "br1", Ifname: "tap7", Link: vmspec.LinkDown,
					Lease: &vmspec.Lease{
						Address: "10.66.10.14/24", Gateway: "10.66.10.1",
						Nameservers: &vmspec.Nameservers{
							Addresses: []string{"10.66.10.1"}, Search: []string{"example.org"},
						},
						Routes: []vmspec.Route{{To: "10.7.0.0/16", Via: "10.66.10.2"}},
					},
					Filter: new(false),
				},
			},
			Drives: []vmspec.Drive{
				{Type: vmspec.DriveRaw, Bootindex: new(0), File: "/a.qcow2", Format: "qcow2", ReadOnly: true},
				{Type: vmspec.DriveIDECD, Bus: "scsi", File: "https://example.org/boot.iso"},
				{Device: "/dev/vg/b"},
				{
					Resource: "/c", Cache: "none", AIO: "native", IOThread: vmspec.IOThreadOwn, Discard: "ignore",
					DetectZeroes: "on", LogicalBlockSize: 4096, PhysicalBlockSize: 8192, RotationRate: 7200,
					Limits: &vmspec.DiskLimits{IOPSRead: 100, IOPSWrite: 50, Bytes: vmspec.MiB},
				},
				{
					Resource: "/e", IOThread: "shared",
					Limits: &vmspec.DiskLimits{IOPS: 10, BytesRead: 2 * vmspec.MiB, BytesWrite: vmspec.MiB},
				},
				{
					File: "/d", Size: 2 * vmspec.GiB, Serial: "data", Source: "https://example.org/d",
					SourceChecksum: "md5:00112233445566778899aabbccddeeff",
				},
				{Serial: "far", NBD: &vmspec.NBD{Host: "disks", Port: 10810, Export: "far", TLS: "/nbd"}},
			},
			Display: &vmspec.Display{
				Outputs: 2, LoggedInUser: "test", WithoutPassword: true,
				Spice: &vmspec.Spice{Port: 5901, Address: "::1", StreamingVideo: "off", USBRedirects: new(0)},
				VNC:   &vmspec.VNC{Port: 5902, Address: "127.0.0.1"},
			},
			SerialConsole: &vmspec.SerialConsole{Enabled: new(false), Log: "/var/log/serial"},
			Options: map[string]any{
				"pages": int64(4), "share": 1.5, "on": "yes", "off": "no", "nothing": nil,
				"nodes": []any{map[string]any{"id": int64(0)}, "x", "2026-03-01", true},
			},
		},
	}, c)
}

func TestTheFileOfEveryKeyHasEveryKey(t *testing.T) {
	t.Parallel()
	others := []string{"template", "updateTemplate", "userDataFile", "networkConfigFile"} // exclude keys of the file
	for _, key := range keysOf(reflect.TypeFor[section]()) {
		if !slices.Contains(others, key) {
			require.Contains(t, everyKey, key+":", key)
		}
	}
}

// keysOf lists the keys of a struct and its nested structs.
func keysOf(of reflect.Type) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[yaml.Node]() {
		return nil
	}
	var keys []string
	for i := range of.NumField() {
		switch key := of.Field(i).Tag.Get("yaml"); key {
		case "":
		case ",inline":
			keys = append(keys, keysOf(of.Field(i).Type)...)
		default:
			keys = append(append(keys, key), keysOf(of.Field(i).Type)...)
		}
	}
	return keys
}

func TestSmallestFile(t *testing.T) {
	t.Parallel()
	want := &Config{VMType: "standard", VM: vmspec.Spec{Name: "test"}}
	for _, text := range []string{
		`"/Runner": {vm: {name: test}}`,
		`_Runner: {vm: {name: test}}`,
		"\uFEFF/Runner:\r\n  vm:\r\n    name: test\r\n",
		`{"/Runner": {"vm": {"name": "test"}}}`,
		"/Runner:\n  cloudInit:\n  resetCounter: ~\n  vm: {name: test, display: null, drives: [], kernel: }",
	} {
		c, warnings := parse(t, text)
		require.Empty(t, warnings)
		if len(c.VM.Drives) == 0 {
			c.VM.Drives = nil
		}
		c.document, c.text = nil, nil
		require.Equal(t, want, c, text)
	}
}

func TestAbsentAndEmptyNetworksDiffer(t *testing.T) {
	t.Parallel()
	require.Nil(t, parseVM(t).Network)
	for _, line := range []string{"network: []", "network:", "network: null"} {
		network := parseVM(t, line).Network
		require.NotNil(t, network, line)
		require.Empty(t, network, line)
	}
}

func TestScalarsMeanWhatTheyLookLike(t *testing.T) {
	t.Parallel()
	vm := parseVM(t, `maximumCpus: "4"`, "powerdownTimeout: '900'", "maximumRam: 1073741824", "currentRam: 5.24288e8",
		"useTpm: on", "bootMenu: No", "cpuModel: 1.10", "rtcBase: 2026-03-01T12:00:00", "uuid:")
	require.Equal(t, vmspec.Spec{
		Name: "test", MaximumCPUs: 4, PowerdownTimeout: new(vmspec.Seconds(900)), MaximumRAM: vmspec.GiB,
		CurrentRAM: 500 * vmspec.MiB,
		UseTPM:     true, CPUModel: "1.10", RTCBase: "2026-03-01T12:00:00",
	}, vm)
	require.Equal(t, vmspec.Seconds(0), *parseVM(t, "powerdownTimeout: 0").PowerdownTimeout, "an explicit 0 is kept")
	require.Equal(t, "no", must(parse(t, "/Runner: {vm: {name: no}}")).VM.Name)
}

func TestAnchorsAndMergeKeys(t *testing.T) {
	t.Parallel()
	c, warnings := parse(t,
		"_common: &common {type: user, device: e1000e}",
		"/Runner:",
		"  vm:",
		"    name: &name test",
		"    network:",
		"    - &first {<<: *common, mac: '52:54:00:12:34:56'}",
		"    - {device: rtl8139, <<: [*first, *common], mac: }",
		"    options: {<<: {a: 1, b: *name}, a: 2}",
	)
	require.Equal(t, []vmspec.Network{
		{Type: vmspec.NetworkUser, Device: "e1000e", MAC: "52:54:00:12:34:56"},
		{Type: vmspec.NetworkUser, Device: "rtl8139"},
	}, c.VM.Network)
	require.Equal(t, map[string]any{"a": int64(2), "b": "test"}, c.VM.Options)
	require.Len(t, warnings, 1)
	require.Equal(t, `config.yaml:1:1: the section "_common" is ignored (only /Runner is read)`, warnings[0].String())
}

func TestTemplatesOfTheOriginal(t *testing.T) {
	t.Parallel()
	for _, template := range []string{
		"Standard-VM-latest.ftl.yaml",
		"/opt/vmrunner/templates/Standard-VM-latest.ftl.yaml",
	} {
		c, warnings := parse(t, "/Runner:", "  template: "+template, "  updateTemplate: true", "  vm: {name: test}")
		require.Equal(t, "standard", c.VMType)
		require.True(t, c.UpdateVMType)
		require.Len(t, warnings, 2)
		require.Contains(t, warnings[0].String(), "config.yaml:2:13: template: is understood as vmType: standard (")
		require.Equal(t, "config.yaml:3:19: updateTemplate: is understood as updateVmType (use the new name)", warnings[1].String())
	}
}

func TestConsequencesAreNotReported(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ vm, want string }{
		{"nmae: test", "vm.nmae: unknown key (did you mean name?)"},
		{"name: test, maximumRm: 8Gi, currentRam: 4Gi", "vm.maximumRm: unknown key (did you mean maximumRam?)"},
		{
			"name: test, maximumCpus: four, currentCpus: 2, sockets: 2",
			`vm.maximumCpus: must be a whole number, not the text "four"`,
		},
		{"name: test, drives: [{flie: a}]", "vm.drives[0].flie: unknown key (did you mean file?)"},
		{"name: test, network: [{user: {}}]", "vm.network[0].user: unknown key (give type: user here, and its keys next to it)"},
		{
			"name: test, drives: [{file: a, cdrom: {}}]",
			"vm.drives[0].cdrom: unknown key (give type: ide-cd, and file for its image)",
		},
		{
			"name: test, network: [{type: 1, net: 10.0.2.0/24}]",
			`vm.network[0].type: can't be "1" (it can be tap, user, passt or masquerade)`,
		},
		{
			"name: test, network: [{tpye: user, net: 10.0.2.0/24}]",
			"vm.network[0].tpye: unknown key (did you mean type?)",
		},
		{"name: test, kernel: {imgae: a}", "vm.kernel.imgae: unknown key (did you mean image?)"},
		{
			"name: test, display: {vnc: {prot: 5900, address: '::1'}}",
			"vm.display.vnc.prot: unknown key (did you mean port?)",
		},
	} {
		_, _, err := Parse("f", []byte("/Runner: {vm: {"+test.vm+"}}"))
		var faults yamlfile.Faults
		require.ErrorAs(t, err, &faults)
		require.Len(t, faults, 1, test.vm)
		_, text, _ := strings.Cut(faults[0].Error(), " ")
		require.Equal(t, test.want, text)
	}
}

func TestFaultsAsErrors(t *testing.T) {
	t.Parallel()
	_, _, err := Parse("dir/config.yaml", []byte("/Runner:\n  vm:\n    nmae: x\n    useTPM: true\n"))
	require.EqualError(t, err, "dir/config.yaml:3:5: vm.nmae: unknown key (did you mean name?)\n"+
		"dir/config.yaml:4:5: vm.useTPM: unknown key (did you mean useTpm?)")
	var fault yamlfile.Fault
	require.ErrorAs(t, err, &fault)
	require.Equal(t, yamlfile.Fault{
		File: "dir/config.yaml", Line: 3, Column: 5, Path: "vm.nmae",
		Message: "unknown key", Hint: "did you mean name?", Source: "    nmae: x",
	}, fault)
}

func TestKeysCannotDisturbATerminal(t *testing.T) {
	t.Parallel()
	_, _, err := Parse("f", []byte(`/Runner: {"\e[31m\nred": 1, vm: {name: test, cpuModel: "\a"}}`))
	require.EqualError(t, err, "f:1:11: \uFFFD[31m red: unknown key (known are cloudInit, crashStops, dataDir, drivesRevision, generation, "+
		"guestShutdownStops, imageRepository, namespace, nbdCertificates, provisioned, resetCounter, resource, runtimeDir, sysprep, updateVmType, vm, "+
		"vmType)\n"+
		`f:1:56: vm.cpuModel: "\a" holds a control character or a line break`)
}

// TestHostileFiles: parsing hostile files takes only a moment; otherwise the test runs into go test's timeout.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	times := func(text string, n int) string { return strings.Repeat(text, n/len(text)) }
	wide := "x: &x {" + times("a,", 200_000) + "b: 1}\n"
	for name, text := range map[string]string{
		"unknown keys":     "/Runner:\n" + times("  abcdefg: 1\n", yamlfile.LargestFile-100),
		"unknown sections": times("- a\n", yamlfile.LargestFile-100),
		"list of options":  "/Runner: {vm: {name: x, options: {a: [" + times("1,", yamlfile.LargestFile-100) + "]}}}",
		"long key": "/Runner: {vm: {name: x, options: {? " + times("k", 500_000) + " : [" +
			times("{a: 1},", 400_000) + "]}}}",
		"nested":        times("[", 9000),
		"nested deeper": times("[", yamlfile.LargestFile-100),
		"nested keys":   "/Runner: {vm: {name: x, options: " + times("{a: ", 30000) + times("}", 7500) + "}}",
		"merges": "_a:\n  " + wide + "/Runner: {vm: {name: x, options: {a: [" + times("{<<: *x},", 300_000) +
			"]}}}",
		"late syntax":  "/Runner:\n" + times("  abcdefg: 1\n", yamlfile.LargestFile/8-100) + " x\n",
		"later syntax": "/Runner:\n" + times("  abcdefg: 1\n", yamlfile.LargestFile-100) + " x\n",
		"open quote":   "/Runner: \"" + times("a\n", yamlfile.LargestFile/8-100),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := Parse("f", []byte(text))
			var faults yamlfile.Faults
			if err != nil {
				require.ErrorAs(t, err, &faults)
				require.LessOrEqual(t, len(faults), 101)
				require.Less(t, len(faults.Excerpts()), 100_000)
			}
		})
	}
}

func TestFaultsFoundLaterAreLocated(t *testing.T) {
	t.Parallel()
	c, _ := parse(t, "/Runner:", "  vm:", "    name: test", "    drives:", "    - resource: /gone")
	_, faults := vmspec.ResolveResources(c.VM.WithDefaults(), func(string) (fs.FileMode, error) {
		return 0, fs.ErrNotExist
	})
	require.EqualError(t, c.Locate(faults), `config.yaml:5:17: vm.drives[0].resource: "/gone" does not exist`)
	for path, place := range map[string]string{"vm.drives[0].format": "5:7", "vm.display.vnc": "2:3"} {
		located := c.Locate([]vmspec.Fault{{Path: path, Message: "no"}})
		require.ErrorContains(t, located, "config.yaml:"+place+": "+path+": no")
	}
	require.ErrorContains(t, new(Config).Locate(faults), `configuration:1:1: vm.drives[0].resource: "/gone" does not exist`)
	require.NoError(t, c.Locate(nil))
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	_, _, err := Load(file)
	require.EqualError(t, err, "read configuration: open "+file+": no such file or directory")

	_, _, err = Load(dir)
	require.EqualError(t, err, "read configuration: read "+dir+": is a directory")

	require.NoError(t, os.WriteFile(file, []byte("/Runner: {vm: {name: test}}"), 0o600))
	c, _, err := Load(file)
	require.NoError(t, err)
	require.Equal(t, "test", c.VM.Name)

	require.NoError(t, os.WriteFile(file, make([]byte, 3_000_000), 0o600))
	_, _, err = Load(file)
	require.EqualError(t, err, file+":1:1: the file has 3000000 bytes (the maximum is 1 MiB)")
}

// FuzzParse checks that parsing never panics and that errors lie within the file.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(everyKey))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, err := Parse("f", data)
		if err == nil {
			require.Empty(t, c.VM.WithDefaults().Check())
			return
		}
		var faults yamlfile.Faults
		require.True(t, errors.As(err, &faults), "%v", err)
		lines := strings.Split(strings.NewReplacer(
			"\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n",
		).Replace(strings.TrimPrefix(string(data), "\uFEFF")), "\n")
		for _, fault := range faults {
			require.LessOrEqual(t, 1, fault.Line)
			require.LessOrEqual(t, fault.Line, len(lines))
			require.LessOrEqual(t, 1, fault.Column)
			require.LessOrEqual(t, fault.Column, 1+len([]rune(lines[fault.Line-1])))
			require.NotEmpty(t, fault.Message)
			require.NotEmpty(t, fault.Excerpt())
		}
	})
}

// Errors in data from a resource's spec.provisioning don't mention cloudInit, a key that the resource's author never
// saw.
func TestFaultsOfProvisioning(t *testing.T) {
	t.Parallel()
	_, _, err := Parse("f", []byte("/Runner:\n  provisioned: true\n  cloudInit: {userData: [1]}\n  vm: {name: test}"))
	require.EqualError(t, err, "f:3:25: provisioning.userData: must be a mapping or text, not a list")
}

func must(c *Config, _ []yamlfile.Warning) *Config { return c }
