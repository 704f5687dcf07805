//go:build race

package measure

// raceDetector makes everything in this process about ten times slower.
const raceDetector = true
