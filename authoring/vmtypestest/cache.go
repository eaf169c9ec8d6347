package vmtypestest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"vmop/authoring/sample"
	"vmop/internal/atomicfile"
	"vmop/vmtypes"
)

// Limits of the cache.
const (
	mostCached  = 20_000   // results of a folder; the oldest are removed
	mostFolders = 50       // files of folders; the oldest are removed
	largestFile = 16 << 20 // bytes of a file of a folder
)

// A Cache contains the results of the tests and samples of a folder that have passed. A result is found by the content
// of everything that determines it: the program, the test or sample, and the modules that it loads directly or
// indirectly. Failures are never cached. Several goroutines can use a Cache. nil is a cache without content.
type Cache struct {
	file    string
	dir     string
	base    string // everything that determines all results
	source  vmtypes.Source
	loads   map[string][]string
	mu      sync.Mutex
	kept    map[string][]Result // read from the file
	passed  []cached            // of this run
	changed bool
}

// cached is an entry of a cache: the results of one file. No results stand for one passed result of a sample.
type cached struct {
	Key     string   `json:"key"`
	Results []Result `json:"results,omitempty"`
}

// OpenCache reads the cache of a folder of types from the folder caches. program identifies the program and everything
// else, such as a policy, that determines the results. A missing or invalid cache is empty.
func OpenCache(caches string, folder *Folder, source vmtypes.Source, program string) (*Cache, error) {
	dir, err := filepath.Abs(folder.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the cache of tests: %w", err)
	}
	c := &Cache{
		file: filepath.Join(caches, hashTexts(dir)[:16]+".json"), dir: dir, base: program, source: source,
		loads: map[string][]string{}, kept: map[string][]Result{},
	}
	for name, text := range source.Modules {
		c.loads[name] = vmtypes.DescribeModule(name, text).Loads
	}
	var list []cached
	if info, err := os.Stat(c.file); err != nil || info.Size() > largestFile {
		return c, nil
	}
	text, err := os.ReadFile(c.file)
	if err != nil || json.Unmarshal(text, &list) != nil {
		return c, nil
	}
	for _, e := range list {
		c.kept[e.Key] = e.Results
	}
	return c, nil
}

// results returns the cached results of a file, or runs its tests and keeps the results if all have passed. match
// selects tests of a test file; nil selects all.
func (c *Cache) results(
	ctx context.Context, file string, match *regexp.Regexp, run func() []Result,
) []Result {
	if c == nil {
		return run()
	}
	key := c.keyOf(file)
	c.mu.Lock()
	kept, known := c.kept[key]
	if known {
		c.passed = append(c.passed, cached{key, kept})
	}
	c.mu.Unlock()
	if known && key != "" {
		return cachedResults(file, kept, match)
	}
	results := run()
	if key != "" && match == nil && ctx.Err() == nil && !slices.ContainsFunc(results, func(r Result) bool {
		return len(r.Failures) > 0 || r.Updated || r.Skipped != ""
	}) {
		c.keep(key, file, results)
	}
	return results
}

func (c *Cache) keep(key, file string, results []Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(results) == 1 && results[0].Name() == file {
		results = nil
	}
	c.changed = true
	c.passed = append(c.passed, cached{key, slices.Clone(results)}) // the caller may change them
}

// cachedResults returns copies of the results of a file that match selects.
func cachedResults(file string, kept []Result, match *regexp.Regexp) []Result {
	if kept == nil {
		return []Result{{File: file, Cached: true}}
	}
	var list []Result
	for _, r := range kept {
		if match == nil || match.MatchString(r.Name()) {
			r.Cached, r.Time = true, 0
			list = append(list, r)
		}
	}
	return list
}

// keyOf returns the hash of everything that determines the results of a file; "" if that is unknown.
func (c *Cache) keyOf(file string) string {
	if strings.HasSuffix(file, testSuffix) {
		return hashTexts(append([]string{c.base, file}, c.closureOf(file)...)...)
	}
	text, err := os.ReadFile(filepath.Join(c.dir, file))
	if err != nil {
		return ""
	}
	vmType, err := sample.TypeOf(filepath.Join(c.dir, file), text)
	if err != nil || filepath.IsAbs(vmType) { // the modules of another folder
		return ""
	}
	texts := []string{c.base, file, string(text), vmType}
	if filepath.Ext(file) != sample.Suffix {
		texts = append(texts, c.dir) // relative paths in a configuration begin here
	}
	return hashTexts(append(texts, c.closureOf(strings.TrimSuffix(vmType, ".star")+".star")...)...)
}

// closureOf returns the names and texts of a module and of all modules of the folder that it loads.
func (c *Cache) closureOf(module string) []string {
	all := []string{module}
	for i := 0; i < len(all); i++ {
		for _, loaded := range c.loads[all[i]] {
			if !slices.Contains(all, loaded) {
				all = append(all, loaded)
			}
		}
	}
	slices.Sort(all)
	var texts []string
	for _, name := range all {
		texts = append(texts, name, c.source.Modules[name])
	}
	return texts
}

// hashTexts returns a hash that differs for different lists of texts.
func hashTexts(texts ...string) string {
	hash := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(hash, "%d\n%s", len(text), text)
	}
	return fmt.Sprintf("%x", hash.Sum(nil)[:20])
}

// Write stores the results. The results of this run replace the oldest.
func (c *Cache) Write() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.changed {
		return nil
	}
	c.changed = false
	list := c.passed
	known := map[string]bool{}
	for _, e := range list {
		known[e.Key] = true
	}
	for key, results := range c.kept {
		if !known[key] && len(list) < mostCached {
			list = append(list, cached{key, results})
		}
	}
	text, err := json.Marshal(list[:min(len(list), mostCached)])
	if err != nil {
		return fmt.Errorf("encode the cache of tests: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(c.file), 0o700); err != nil {
		return fmt.Errorf("create the cache of tests: %w", err)
	}
	if err := atomicfile.Write(c.file, text, 0o600, atomicfile.Volatile); err != nil {
		return err
	}
	return removeOldest(filepath.Dir(c.file))
}

// removeOldest removes the oldest files of a folder of caches if there are too many.
func removeOldest(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= mostFolders {
		return err
	}
	age := func(e os.DirEntry) int64 {
		info, err := e.Info()
		if err != nil {
			return 0
		}
		return info.ModTime().UnixNano()
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return cmp.Compare(age(a), age(b)) })
	for _, e := range entries[:len(entries)-mostFolders] {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
