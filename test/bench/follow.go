package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// changes is the number of changes to the configuration of a running VM.
const changes = 100

// restTime is the pause between two changes, in which the VM applies the first.
const restTime = 150 * time.Millisecond

// measureFollow measures the time from the replacement of the configuration until the runner sends the QMP command to
// QEMU. The runner's log contains the time of the command.
func measureFollow(b *bench) (list []result, err error) {
	v, err := b.newVM("follow", hardware{vmType: "standard", tpm: true, cpus: 2, max: 4})
	if err != nil {
		return nil, err
	}
	config, err := os.ReadFile(v.config)
	if err != nil {
		return nil, err
	}
	medium := func(name string) []byte {
		return bytes.Replace(config, []byte("drives: ["), []byte("drives: [{type: ide-cd, file: "+name+"}, "), 1)
	}
	media := []string{"a.iso", "b.iso"}
	for _, name := range media {
		if err := os.WriteFile(v.dir+"/"+name, make([]byte, 64<<10), 0o600); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(v.config, medium(media[0]), 0o600); err != nil {
		return nil, err
	}
	r, err := v.startRunner("--log-level", "debug")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stopRunner()) }()
	var times []float64
	for i := range changes + 1 {
		if err := b.waitFor(restTime); err != nil {
			return nil, err
		}
		begin := time.Now()
		fresh := v.config + "~"
		if err := errors.Join(os.WriteFile(fresh, medium(media[(i+1)%len(media)]), 0o600),
			os.Rename(fresh, v.config)); err != nil {
			return nil, err
		}
		said, err := r.awaitCommand("blockdev-change-medium")
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first command also queries the drives
			times = append(times, toMillis(said.Sub(begin)))
		}
	}
	slices.Sort(times)
	late := singleResult(fmt.Sprintf("95 of %d changes", changes), "ms", times[len(times)*95/100-1])
	late.Goal = 50
	return []result{{Name: "change of the configuration file → QMP command", Unit: "ms", Samples: times}, late}, nil
}

// awaitCommand returns the time at which the log reports a command.
func (r *running) awaitCommand(name string) (time.Time, error) {
	for {
		line, err := r.log.ReadString('\n')
		if err != nil {
			return time.Time{}, fmt.Errorf("the VM ended before the command %s: %w", name, err)
		}
		if !strings.Contains(line, `"QMP command"`) || !strings.Contains(line, name) {
			continue
		}
		var record struct{ Time time.Time }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			return time.Time{}, fmt.Errorf("read the log: %w", err)
		}
		return record.Time, nil
	}
}
