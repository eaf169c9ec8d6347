package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"vmop/qmp"
)

// Limits of screenshots.
const (
	pictureRest = 200 * time.Millisecond // between two screenshots
	maxPicture  = 64 << 20
)

// pictures takes screenshots, one at a time, because QEMU halts the guest's devices during a screenshot, and the file
// takes memory. Clients that arrive during a screenshot share the next screenshot.
type pictures struct {
	ctx   context.Context // until the server's end
	group sync.WaitGroup  // of the screenshots in progress

	mu    sync.Mutex
	next  *picture // to be taken; nil: no client waits
	taken chan struct{}
	rest  time.Time // time of the next screenshot
}

// A picture is a screenshot for all its holders.
type picture struct {
	holders int           // guarded by pictures.mu
	done    chan struct{} // closed when the other fields are set
	file    *os.File      // PNG, already unlinked
	size    int64
	err     error
}

// holdNext returns the next picture; it must be released. It calls take when it is the picture's turn.
func (p *pictures) holdNext(take func(context.Context, *picture)) *picture {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		p.next = &picture{done: make(chan struct{})}
		before := p.taken
		p.taken = p.next.done
		next := p.next
		p.group.Go(func() { p.captureNext(next, before, take) })
	}
	p.next.holders++
	return p.next
}

func (p *pictures) captureNext(next *picture, before <-chan struct{}, take func(context.Context, *picture)) {
	defer close(next.done)
	if before != nil {
		<-before
	}
	p.mu.Lock()
	wait := time.Until(p.rest)
	p.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-p.ctx.Done():
	}
	p.mu.Lock()
	p.next = nil
	unwanted := next.holders == 0
	p.mu.Unlock()
	if unwanted {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, actionTime)
	defer cancel()
	take(ctx, next)
	p.mu.Lock()
	p.rest = time.Now().Add(pictureRest)
	p.mu.Unlock()
}

// releasePicture gives up a picture.
func (p *pictures) releasePicture(held *picture) {
	p.mu.Lock()
	held.holders--
	last := held.holders == 0 && p.next != held
	p.mu.Unlock()
	if !last {
		return
	}
	go func() {
		<-held.done
		if held.file != nil {
			_ = held.file.Close() // it was only read
		}
	}()
}

// getScreenshot sends the screen as PNG.
func (s *Server) getScreenshot(w http.ResponseWriter, r *http.Request) error {
	shot := s.shots.holdNext(func(ctx context.Context, p *picture) {
		p.file, p.size, p.err = s.screenshotFile(ctx)
	})
	defer s.shots.releasePicture(shot)
	select {
	case <-shot.done:
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
	if shot.err != nil {
		return shot.err
	}
	w.Header().Set("Content-Type", pngType)
	w.Header().Set("Content-Length", strconv.FormatInt(shot.size, 10))
	_, _ = io.Copy(w, io.NewSectionReader(shot.file, 0, shot.size)) // the client may have disconnected
	return nil
}

// screenshotFile returns the screen as PNG, in a file without a name. It passes QEMU the open file, because the kernel
// prevents QEMU from opening new files.
func (s *Server) screenshotFile(ctx context.Context) (file *os.File, size int64, err error) {
	file, to, err := s.unnamedFile()
	if err != nil {
		return nil, 0, err
	}
	png, err := s.dumpScreen(ctx, to)
	_ = to.Close() // QEMU has written
	if err == nil && !png {
		file, err = s.convertToPNG(file)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	info, err := file.Stat()
	if err == nil && info.Size() > maxPicture {
		err = fmt.Errorf("the screenshot has %d bytes: more than %d are not sent", info.Size(), maxPicture)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// unnamedFile returns a new file without a name, opened once for reading and once for writing.
func (s *Server) unnamedFile() (from, to *os.File, err error) {
	made, err := os.CreateTemp(s.opts.Dir, "shot")
	if err != nil {
		return nil, nil, fmt.Errorf("create a file for the screenshot: %w", err)
	}
	defer made.Close()
	defer os.Remove(made.Name())
	if from, err = os.Open(made.Name()); err == nil {
		to, err = os.OpenFile(made.Name(), os.O_WRONLY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open the file for the screenshot: %w", err), from.Close())
	}
	return from, to, nil
}

// convertToPNG returns a file with the PNG of a PPM. It closes the PPM if that succeeds.
func (s *Server) convertToPNG(ppm *os.File) (*os.File, error) {
	from, to, err := s.unnamedFile()
	if err != nil {
		return ppm, err
	}
	if err := errors.Join(ppmToPNG(to, ppm), to.Close()); err != nil {
		return ppm, errors.Join(err, from.Close())
	}
	return from, ppm.Close()
}

// dumpScreen makes QEMU write the screen into a file, and reports whether it is PNG: QEMU before version 7.1, or built
// without libpng, writes only PPM.
func (s *Server) dumpScreen(ctx context.Context, to *os.File) (png bool, err error) {
	run := s.opts.Backend.Run
	reply, err := run(ctx, qmp.Command{Execute: "add-fd", File: to})
	if err != nil {
		return false, err
	}
	var set struct {
		ID int `json:"fdset-id"`
	}
	if err := json.Unmarshal(reply, &set); err != nil {
		return false, fmt.Errorf("hand QEMU a file for the screenshot: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), actionTime)
		defer cancel()
		_, removing := run(ctx, qmp.Command{Execute: "remove-fd", Arguments: map[string]int{"fdset-id": set.ID}})
		err = errors.Join(err, removing)
	}()
	name := fmt.Sprintf("/dev/fdset/%d", set.ID) // QEMU's name for the file
	var refused *qmp.Error
	_, err = run(ctx, qmp.Command{
		Execute: "screendump", Arguments: map[string]string{"filename": name, "format": "png"},
	})
	if err == nil || !errors.As(err, &refused) {
		return true, err
	}
	_, err = run(ctx, qmp.Command{Execute: "screendump", Arguments: map[string]string{"filename": name}})
	return false, err
}
