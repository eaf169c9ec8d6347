// Package scrape serves the metrics of all VMs of a namespace to Prometheus. It queries their runners, which only
// the manager can reach (docs/decisions/0149-metrics-of-vms.md).
//
//	scraper := scrape.New(scrape.Options{Namespace: namespace, VMs: list, Runner: find, Log: log})
//	mux.Handle("GET /metrics/vms", scraper)
//
// Each request from Prometheus queries many runners concurrently. Requests that arrive during a round or shortly
// after it share the answer. A runner that doesn't answer in time is omitted, and queried last the next time.
//
// A guest may have broken out into its runner. Therefore the size of an answer is limited. Only lines with metrics
// of VMs in the form of this program are used: families and labels of runners of this version. The name of the VM
// comes from the API server.
package scrape
