package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// shell is /bin/sh -c for the scripts that labs have in tests: a command a line,
// of these, ended by the first that fails.
//
//	set -e                             nothing: it is always so
//	exec COMMAND…                      becomes the command, with runRest
//	echo TEXT…
//	fail TEXT…                         prints the text and fails
//	find DIR -mindepth 1 -delete       empties the folder
//	trtllm-build … --output_dir DIR …  writes DIR/rank0.engine, as the real one does
func shell(script string) error {
	for line := range strings.Lines(script) {
		words := shellWords(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "set":
		case "exec":
			runRest(words[1:])
		case "echo":
			fmt.Println(strings.Join(words[1:], " "))
		case "fail":
			return fmt.Errorf("%s", strings.Join(words[1:], " "))
		case "find":
			left, err := filepath.Glob(filepath.Join(words[1], "*"))
			if err != nil {
				return err
			}
			for _, path := range left {
				if err := os.RemoveAll(path); err != nil {
					return err
				}
			}
		case "trtllm-build":
			for i, w := range words[:len(words)-1] {
				if w == "--output_dir" {
					if err := os.WriteFile(filepath.Join(words[i+1], "rank0.engine"), []byte(line), 0o644); err != nil {
						return err
					}
				}
			}
		default:
			return fmt.Errorf("sh: %s: not found", words[0])
		}
	}
	return nil
}

// shellWord is what stands between blanks; single quotes keep blanks in it.
var shellWord = regexp.MustCompile(`(?:'[^']*'|[^' \n])+`)

func shellWords(line string) []string {
	words := shellWord.FindAllString(line, -1)
	for i, w := range words {
		words[i] = strings.ReplaceAll(w, "'", "")
	}
	return words
}
