package main

// row is one problem of the matrix.
type row struct {
	number int
	fault  string
	how    how
	// later describes what a row without a test waits for.
	later string
}

// how describes how the test causes the problem.
type how string

const (
	// real uses the real QEMU, swtpm, kernel, file system or process.
	real how = "real"
	// scripted uses the test's own peer, because the real peer can't be made to do this.
	scripted how = "scripted"
)

// matrixRows returns the rows. A row number never changes, because tests contain it in their names. Rows 33 to 35 and
// 41 are about the manager, row 42 about its web pages.
func matrixRows() []row {
	return []row{
		{1, "the runner is killed while QEMU runs", real, ""},
		{2, "the runner is killed at any point of the start", real, ""},
		{3, "the runner is killed while the guest shuts down", real, ""},
		{4, "QEMU is killed, or crashes", real, ""},
		{5, "QEMU rejects its arguments", real, ""},
		{6, "no program for QEMU, none that runs here", real, ""},
		{7, "swtpm ends before QEMU has reached it", real, ""},
		{8, "swtpm ends while the guest runs", real, ""},
		{9, "swtpm hangs during the start", real, ""},
		{10, "QEMU hangs", real, ""},
		{11, "the monitor's connection ends, QEMU lives", real, ""},
		{12, "QEMU's monitor says what it never should", scripted, ""},
		{13, "a flood of events", real, ""},
		{14, "a hostile guest agent", scripted, ""},
		{15, "a hostile log-in agent", scripted, ""},
		{16, "TERM while the guest is in its firmware", real, ""},
		{17, "TERM, and the guest is deaf to the power button", real, ""},
		{18, "TERM twice, INT, HUP", real, ""},
		{19, "TERM between the starts of swtpm and QEMU", real, ""},
		{20, "the guest reboots again and again, powers off, panics", real, ""},
		{21, "the configuration becomes unusable", real, ""},
		{22, "the configuration is swapped 1000 times in 10 s", real, ""},
		{23, "less RAM than the guest uses, more CPUs than it can have", real, ""},
		{24, "the configuration changes what cannot change", real, ""},
		{25, "no space left for state, sockets, cloud-init's disk", real, ""},
		{26, "no space left under the guest's disk", real, ""},
		{27, "the guest's disk has an I/O error", real, ""},
		{28, "the data directory can't be written, made, entered", real, ""},
		{29, "the firmware's variables are truncated, or of another size", real, ""},
		{30, "another QEMU has the disk, another runner the VM", real, ""},
		{31, "the API server is away", real, ""},
		{32, "the API server answers with errors", real, ""},
		{33, "the manager is killed at any write", real, ""},
		{34, "two managers lead, and the clock of one is an hour fast", real, ""},
		{35, "the manager's API server is away, fails, is slow", scripted, ""},
		{36, "the node reboots, or loses power: all processes are gone at once, and what was not synced", real, ""},
		{37, "the pod is deleted without grace while the guest writes", real, ""},
		{38, "the runner has 24 MiB of memory", real, ""},
		{39, "no descriptors, no processes, no watches left", real, ""},
		{40, "the clock jumps by a day", scripted, ""},
		{41, "others change and delete what the manager is writing", real, ""},
	}
}
