// Package run keeps the folder of one training run: what was asked for, on what, how it went, and where to go on after the power
// went.
//
//	DIR/config.yaml                the resolved configuration
//	DIR/meta.json                  program, commit, command line, seeds, machine; the same of each time it was resumed
//	DIR/metrics.jsonl              one object an iteration: {"iteration":3,"time":1764...,"Loss/value":0.2,...}
//	DIR/events.out.tfevents.*      the same for TensorBoard, one file each time it was resumed
//	DIR/curves.svg                 the same as a picture
//	DIR/checkpoints/000120, best   everything that training needs to go on, in named sections
//	DIR/lock                       held by the one trainer
//
//	Create ─┐            ┌─▶ Log ──▶ metrics.jsonl, events ──▶ WriteCurves ──▶ curves.svg
//	        ├─▶ Folder ──┤
//	Open ───┘            └─▶ Save, SaveBest ──▶ checkpoints ──▶ Latest, Load, Best
//
// A process may be killed at any instant, and the folder still opens: files that matter are written aside, synced and renamed, and
// each checkpoint carries checksums. Open holds on to nothing that it did not prove. What a killed process logged after its last
// checkpoint is taken back when training goes on from there.
//
// learner/cmd/clawlearn calls it; it knows nothing of networks or robots.
package run
