package web

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"net"
	"net/http"
	"strconv"
	"time"

	"vmop/manager/web/fleet"
)

// apiEvents streams changed VMs as server-sent events. It begins with all VMs, followed by the event "current". The
// parameters are the same as for the list.
func (s *Server) apiEvents(w http.ResponseWriter, r *http.Request) error {
	if err := s.visitOf(r).mayUseAny(); err != nil {
		return err
	}
	end, out := s.beginEvents(w)
	defer end()
	sent := sentVMs{seed: maphash.MakeSeed(), hashes: map[string]uint64{}}
	ended := s.opts.Visitors.Ended(r)
	ping := time.NewTicker(livePing)
	defer ping.Stop()
	for first := true; ; first = false {
		changed, looked := s.opts.Fleet.Changed(), time.Now()
		v, q := s.visitOf(r), parseQuery(r.URL.Query()) // the visitor's roles may have changed
		if v.mayUseAny() != nil {
			_ = writeEvent(w, "gone", nil)
			_ = out.Flush()
			return nil
		}
		all, _ := v.searchVMs(&q)
		name := r.URL.Query().Get("vm")
		now := map[string]bool{}
		for _, vm := range all {
			if name != "" && vm.Name != name {
				continue
			}
			now[vm.Name] = true
			if err := sent.sendIfChanged(w, out, v.vmFor(vm)); err != nil {
				return nil // the client is gone or too slow
			}
		}
		sent.dropOthers(w, now)
		if first {
			_ = writeEvent(w, "current", []byte("{}"))
		}
		_ = out.SetWriteDeadline(time.Now().Add(liveSlow))
		if out.Flush() != nil || !s.waitForChange(r, &watched{}, looked, changed, ended, ping.C, w) {
			return nil
		}
	}
}

// sentVMs contains hashes of the VMs that were sent, by name.
type sentVMs struct {
	seed   maphash.Seed
	hashes map[string]uint64
}

// sendIfChanged sends a VM if it differs from what was sent. The stream fails if the client doesn't accept it in time.
func (sent *sentVMs) sendIfChanged(w http.ResponseWriter, out *http.ResponseController, vm apiVM) error {
	text, err := json.Marshal(vm)
	if err != nil {
		return err
	}
	hash := maphash.Bytes(sent.seed, text)
	if old, known := sent.hashes[vm.Name]; known && old == hash {
		return nil
	}
	sent.hashes[vm.Name] = hash
	if err := out.SetWriteDeadline(time.Now().Add(liveSlow)); err != nil {
		return err
	}
	return writeEvent(w, "vm", text)
}

// dropOthers sends the names of VMs that are gone, or no longer visible or matching.
func (sent *sentVMs) dropOthers(w http.ResponseWriter, now map[string]bool) {
	for name := range sent.hashes {
		if !now[name] {
			delete(sent.hashes, name)
			text, _ := json.Marshal(map[string]string{"name": name}) // never fails
			_ = writeEvent(w, "removed", text)
		}
	}
}

// streamSPICE opens a channel of the screen for a native viewer. All channels of a viewer use the same id.
func (s *Server) streamSPICE(w http.ResponseWriter, r *http.Request) error {
	const longest = 64
	id := r.URL.Query().Get("id")
	if id == "" || len(id) > longest || r.URL.Query().Get("mode") == string(fleet.Watch) {
		return badRequest("give id, the same for all channels of a viewer, at most %d bytes, and mode type or take", longest)
	}
	return s.serveStream(w, r, &s.open.screens, func(
		ctx context.Context, user, name string, mode fleet.Mode,
	) (net.Conn, error) {
		return s.opts.Fleet.SPICE(ctx, user, name, id, mode)
	})
}

// streamPort opens a TCP port of the guest. It requires the same permission as the console
// (docs/decisions/0075-api.md).
func (s *Server) streamPort(w http.ResponseWriter, r *http.Request) error {
	port, err := strconv.ParseUint(r.PathValue("port"), 10, 16)
	if err != nil || port == 0 {
		return badRequest("port %q: must be a TCP port of the guest, 1 to 65535", r.PathValue("port"))
	}
	return s.serveStream(w, r, &s.open.ports, func(ctx context.Context, user, name string, _ fleet.Mode) (net.Conn,
		error,
	) {
		return s.opts.Fleet.Forward(ctx, user, name, int(port))
	})
}
