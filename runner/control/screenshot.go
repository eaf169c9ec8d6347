package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"vmop/qmp"
)

// Bounds of screenshots.
const (
	pictureRest = 200 * time.Millisecond // between two of them
	maxPicture  = 64 << 20
)

// pictures takes screenshots, one at a time: QEMU halts the guest's devices meanwhile, and the
// file takes memory. Clients who come while one is being taken share the next one.
type pictures struct {
	ctx   context.Context // until the server's end
	group sync.WaitGroup  // of those that are being taken

	mu    sync.Mutex
	next  *picture // to be taken; nil: no client waits
	taken chan struct{}
	rest  time.Time // until which none is taken
}

// A picture is a screenshot for all who hold it.
type picture struct {
	holders int           // guarded by pictures.mu
	done    chan struct{} // closed when the rest is set
	file    *os.File      // PNG, which has no name any more
	size    int64
	err     error
}

// hold returns the next picture; it must be released. take is called when it is its turn.
func (p *pictures) hold(take func(context.Context, *picture)) *picture {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		p.next = &picture{done: make(chan struct{})}
		before := p.taken
		p.taken = p.next.done
		next := p.next
		p.group.Go(func() { p.capture(next, before, take) })
	}
	p.next.holders++
	return p.next
}

func (p *pictures) capture(next *picture, before <-chan struct{}, take func(context.Context, *picture)) {
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

// release gives a picture up.
func (p *pictures) release(held *picture) {
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
	shot := s.shots.hold(func(ctx context.Context, p *picture) {
		p.file, p.size, p.err = s.capture(ctx)
	})
	defer s.shots.release(shot)
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

// capture returns the screen as PNG, in a file without a name.
func (s *Server) capture(ctx context.Context) (file *os.File, size int64, err error) {
	dir, err := os.MkdirTemp(s.opts.Dir, "shot")
	if err != nil {
		return nil, 0, fmt.Errorf("make a folder for the screenshot: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "screen")
	png, err := s.dump(ctx, path)
	if err == nil && !png {
		path, err = convert(path)
	}
	if err != nil {
		return nil, 0, err
	}
	if file, err = os.Open(path); err != nil {
		return nil, 0, fmt.Errorf("open QEMU's screenshot: %w", err)
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

// convert makes PNG of the PPM in a file, and returns the path of the new file.
func convert(path string) (converted string, err error) {
	from, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open QEMU's screenshot: %w", err)
	}
	defer from.Close()
	converted = path + ".png"
	to, err := os.Create(converted)
	if err != nil {
		return "", fmt.Errorf("convert QEMU's screenshot: %w", err)
	}
	return converted, errors.Join(ppmToPNG(to, from), to.Close())
}

// dump lets QEMU write the screen into a file and reports whether it is PNG: QEMU before
// version 7.1, or built without libpng, writes only PPM.
func (s *Server) dump(ctx context.Context, file string) (png bool, err error) {
	var refused *qmp.Error
	_, err = s.opts.Backend.Run(ctx, qmp.Command{
		Execute: "screendump", Arguments: map[string]string{"filename": file, "format": "png"},
	})
	if err == nil || !errors.As(err, &refused) {
		return true, err
	}
	_, err = s.opts.Backend.Run(ctx, qmp.Command{Execute: "screendump", Arguments: map[string]string{"filename": file}})
	return false, err
}
