package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"vmop/manager/web/fleet"
)

// Limits for uploads and downloads. Data in transit is only buffered, not kept in memory.
const (
	mostPiece     = 32 << 20 // bytes of a file in one request
	longestID     = 300      // characters
	mostPieces    = 16       // at the same time
	mostDownloads = 4
	browserStall  = 30 * time.Second // for a browser that neither sends nor receives
	pieceTime     = 10 * time.Minute // for a piece
	exportWait    = 20 * time.Second // how long a request waits for an export
)

// transfers limits concurrent uploads and downloads.
type transfers struct {
	pieces, downloads chan struct{}
	hole              func() ([]byte, error) // compressed once
}

func newTransfers() transfers {
	return transfers{make(chan struct{}, mostPieces), make(chan struct{}, mostDownloads), sync.OnceValues(gzipHole)}
}

// enterPlace takes a slot, and returns a function that frees it. Without a free slot it returns NotYet.
func enterPlace(places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, fleet.NotYet("other files are being sent: try again in a moment")
	}
}

// untilLogOut returns a context that ends with the request or the visitor's session. limit is a timeout; 0 means none.
func (s *Server) untilLogOut(r *http.Request, limit time.Duration) (ctx context.Context, cancel context.CancelFunc) {
	if limit > 0 {
		ctx, cancel = context.WithTimeout(r.Context(), limit)
	} else {
		ctx, cancel = context.WithCancel(r.Context())
	}
	go func() {
		select {
		case <-s.opts.Visitors.Ended(r):
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// pieceOf parses the description of a piece from a request.
func pieceOf(r *http.Request) (p fleet.Piece, err error) {
	q := r.URL.Query()
	p.ID, p.Checksum, p.Length = q.Get("upload"), q.Get("checksum"), r.ContentLength
	if p.Size, err = strconv.ParseInt(q.Get("size"), 10, 64); err != nil || p.Size <= 0 {
		return p, badRequest("size=%q: must be the file's size in bytes", q.Get("size"))
	}
	if from := q.Get("from"); from != "" {
		p.From, err = strconv.ParseInt(from, 10, 64)
	}
	switch {
	case err != nil || p.From < 0 || p.From > p.Size:
		return p, badRequest("from=%q: must be an offset in the file", q.Get("from"))
	case p.ID == "" || len(p.ID) > longestID:
		return p, badRequest("upload=%q: must be 1 to %d characters that identify the upload", p.ID, longestID)
	case p.Length < 0:
		return p, refused{http.StatusLengthRequired, "length", "send the header Content-Length"}
	case p.Length > mostPiece || p.Length > p.Size-p.From:
		return p, refused{http.StatusRequestEntityTooLarge, "tooLarge", fmt.Sprintf(
			"a piece has at most %d bytes, and ends with the file", mostPiece)}
	}
	return p, nil
}

// apiUpload forwards a piece of a file, and answers with the progress of the upload.
//
// See docs/decisions/0158-files-through-pages.md.
func (s *Server) apiUpload(w http.ResponseWriter, r *http.Request) error {
	all, err := s.visitOf(r).visibleStorage()
	if err != nil {
		return err
	}
	of, err := namedDisk(r, all)
	if err != nil {
		return err
	}
	p, err := pieceOf(r)
	if err != nil {
		return err
	}
	p.Cancel = r.Method == http.MethodDelete
	leave, err := enterPlace(s.transfers.pieces)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := s.untilLogOut(r, pieceTime)
	defer cancel()
	body := newSteadyReader(w, r.Body, p.Length, time.Now().Add(pieceTime))
	p.Body = body
	is, err := all.Upload(ctx, of.Kind, of.Name, p)
	begins, ends := p.From == 0 && p.Length > 0, p.Cancel || is.State == fleet.UploadImported
	if begins || ends || errors.As(err, new(fleet.Refusal)) {
		s.recordOf(r, "disk", of.Name, "upload", err)
	}
	if ctx.Err() == nil {
		_, _ = io.Copy(io.Discard, body) // a browser that is still sending gets no answer otherwise
	}
	_ = body.out.SetWriteDeadline(time.Now().Add(browserStall))
	if errors.Is(err, fleet.ErrNotFound) {
		return errNoDisk
	} else if err != nil {
		return err
	}
	return answerJSON(w, is)
}

// namedDisk returns the disk that a request names, with only its kind and name.
func namedDisk(r *http.Request, all fleet.Storage) (of fleet.Volume, err error) {
	of.Kind, of.Name = fleet.VolumeKind(r.PathValue("kind")), r.PathValue("disk")
	if !slices.Contains(all.NewDisks().Kinds, of.Kind) {
		return of, errNoDisk
	}
	return of, nil
}

// steadyReader reads a request body with a limit for pauses and a deadline.
type steadyReader struct {
	from io.Reader
	left int64 // bytes
	end  time.Time
	out  *http.ResponseController
}

func newSteadyReader(w http.ResponseWriter, from io.Reader, length int64, end time.Time) *steadyReader {
	b := &steadyReader{from, length, end, http.NewResponseController(w)}
	_ = b.out.SetReadDeadline(time.Time{}) // disables the server's own limit
	return b
}

// Read implements io.Reader.
func (b *steadyReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.EOF
	}
	limit := time.Now().Add(browserStall)
	if b.end.Before(limit) {
		limit = b.end
	}
	_ = b.out.SetReadDeadline(limit)
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); b.left == 0 || err != nil {
		_ = b.out.SetReadDeadline(time.Time{}) // the next step waits for the pod
	}
	if errors.Is(err, io.EOF) && b.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// visibleExports returns the exports of the disks that the visitor may see.
func (v visit) visibleExports() (fleet.Storage, fleet.Exports, error) {
	all, err := v.visibleStorage()
	if err != nil {
		return nil, nil, err
	}
	exports, can := all.(fleet.Exports)
	if !can {
		return nil, nil, fleet.Refusal(v.T("export.none"))
	}
	return all, exports, nil
}

// requestExport requests the data of a disk.
func (s *Server) requestExport(r *http.Request) (of fleet.Volume, request string, err error) {
	v := s.visitOf(r)
	all, exports, err := v.visibleExports()
	if err != nil {
		return of, "", err
	}
	if of, err = diskOf(r, all); err != nil {
		return of, "", err
	}
	request, err = exports.Export(r.Context(), v.who.User, of.Kind, of.Name)
	s.recordOf(r, "disk", of.Name, "export", err)
	return of, request, err
}

func (s *Server) apiExport(w http.ResponseWriter, r *http.Request) error {
	_, request, err := s.requestExport(r)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusAccepted, "application/json", struct {
		Request string `json:"request"`
	}{request})
	return nil
}

// apiDownload sends the data of an exported disk.
func (s *Server) apiDownload(w http.ResponseWriter, r *http.Request) error {
	all, exports, err := s.visitOf(r).visibleExports()
	if err != nil {
		return err
	}
	of, err := diskOf(r, all)
	if err != nil {
		return err
	}
	to, err := s.transfers.openDownload(w, of, r.URL.Query().Get("format"))
	if err != nil {
		return err
	}
	leave, err := enterPlace(s.transfers.downloads)
	if err != nil {
		return err
	}
	defer leave()
	request := r.URL.Query().Get("request")
	_ = to.out.SetReadDeadline(time.Time{})
	ctx, cancel := s.untilLogOut(r, 0)
	defer cancel()
	if err := s.awaitExport(ctx, exports, of, request); err != nil {
		return err
	}
	_ = to.out.SetWriteDeadline(time.Now().Add(browserStall))
	err = exports.Download(ctx, of.Kind, of.Name, request, to)
	s.recordOf(r, "disk", of.Name, "download", err)
	if err != nil && to.Begun() {
		panic(http.ErrAbortHandler) // a partial file must not look complete
	}
	return err
}

// awaitExport waits for exportWait at most until the data can be sent.
func (s *Server) awaitExport(ctx context.Context, all fleet.Exports, of fleet.Volume, request string) error {
	ctx, cancel := context.WithTimeout(ctx, exportWait)
	defer cancel()
	for {
		changed := s.opts.Fleet.Changed()
		err := all.Exported(of.Kind, of.Name, request)
		if err == nil || !errors.As(err, new(fleet.NotYet)) {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return err
		}
	}
}

func addressOf(of fleet.Volume) string {
	return "/disks/" + string(of.Kind) + "/" + url.PathEscape(of.Name)
}

// postExport requests the data of a disk, and redirects to the page for its download.
func (s *Server) postExport(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	of, request, err := s.requestExport(r)
	if err != nil {
		return err
	}
	to := addressOf(of) + "/export?" + url.Values{"request": {request}, "format": {r.PostForm.Get("format")}}.Encode()
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// exportView is the page that waits for the data of a disk.
type exportView struct {
	frame
	Name, Text string
}

// getExport shows a page that reloads itself until the download begins. The browser stays on that page during the
// download.
func (s *Server) getExport(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	all, exports, err := v.visibleExports()
	if err != nil {
		return err
	}
	of, err := diskOf(r, all)
	if err != nil {
		return err
	}
	view := exportView{frame: v.newFrame(v.T("export.title", of.Name)), Name: of.Name}
	var wait fleet.NotYet
	switch err = exports.Exported(of.Kind, of.Name, r.URL.Query().Get("request")); {
	case errors.As(err, &wait):
		view.Text = string(wait)
		w.Header().Set("Refresh", "2")
	case err != nil:
		return err
	default:
		w.Header().Set("Refresh", "0; url=/api/v1"+addressOf(of)+"/data?"+r.URL.RawQuery)
	}
	return s.showPage(w, http.StatusOK, "export", view)
}
