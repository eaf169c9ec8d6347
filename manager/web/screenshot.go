package web

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"vmop/manager/access"
)

// Limits for screenshots: how long one is reused, how many are kept, the time limit for QEMU, and the size in bytes.
const (
	pictureAge   = 3 * time.Second
	pictureCount = 64
	pictureTime  = 5 * time.Second
	pictureSize  = 16 << 20
)

// pictures caches the latest screenshots, so that many visitors of a page cost a VM no more than one.
type pictures struct {
	mutex  sync.Mutex
	taken  map[string]picture
	flight singleflight.Group
}

type picture struct {
	at  time.Time
	png []byte
}

// getOrTake returns the cached screenshot of a VM. If it is too old, it calls take for a new screenshot.
func (p *pictures) getOrTake(ctx context.Context, name string, now func() time.Time,
	take func(context.Context) ([]byte, error),
) ([]byte, error) {
	p.mutex.Lock()
	kept, known := p.taken[name]
	p.mutex.Unlock()
	if known && now().Sub(kept.at) < pictureAge {
		return kept.png, nil
	}
	png, err, _ := p.flight.Do(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pictureTime) // several requests share it
		defer cancel()
		png, err := take(ctx)
		if err == nil {
			p.keepPicture(name, picture{now(), png})
		}
		return png, err
	})
	if err != nil {
		return nil, err
	}
	return png.([]byte), nil
}

// keepPicture caches a VM's screenshot. It removes old screenshots and, if there are too many, others.
func (p *pictures) keepPicture(name string, taken picture) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.taken == nil {
		p.taken = map[string]picture{}
	}
	p.taken[name] = taken
	for other, old := range p.taken {
		if taken.at.Sub(old.at) > pictureAge || len(p.taken) > pictureCount && other != name {
			delete(p.taken, other)
		}
	}
}

// takeScreenshot returns the screen of a VM as PNG.
func (s *Server) takeScreenshot(ctx context.Context, name string) ([]byte, error) {
	return s.pictures.getOrTake(ctx, name, s.opts.Now, func(ctx context.Context) ([]byte, error) {
		b := limitedBuffer{max: pictureSize}
		err := s.opts.Fleet.Screenshot(ctx, &b, name)
		return b.Bytes(), err
	})
}

func (s *Server) getScreenshot(w http.ResponseWriter, r *http.Request) error {
	vm, err := s.visitOf(r).requestedVM(r, access.AccessConsole)
	if err != nil {
		return err
	}
	png, err := s.takeScreenshot(r.Context(), vm.Name)
	if err != nil { // for example while the VM starts; the page soon tries again
		s.opts.Log.Debug("no screenshot", "vm", vm.Name, "err", err)
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = w.Write([]byte(blank))
		return nil
	}
	w.Header().Set("Content-Type", "image/png")
	_, _ = w.Write(png)
	return nil
}

// blank is the picture for an unavailable screen.
const blank = `<svg xmlns="http://www.w3.org/2000/svg" width="640" height="400"><rect width="100%" height="100%"/></svg>`

// limitedBuffer is a buffer with a size limit, so that a runner can't fill the memory.
type limitedBuffer struct {
	bytes.Buffer
	max int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.max {
		return 0, bytes.ErrTooLarge
	}
	return b.Buffer.Write(p)
}
