package main

import (
	"github.com/spf13/cobra"

	"hclbench/sim"
)

func (a *app) sim() *cobra.Command {
	return &cobra.Command{
		Use:   "sim [flags] | sim ENGINE-COMMAND...",
		Short: "Serve as a simulated engine",
		Long: `Serves as an inference engine without a GPU: the OpenAI API, SGLang's /generate,
health, metrics and cache reset. Tokens leave on an exact schedule, and
/sim/truth tells what was really sent and when, so that a load generator can be
held against it. With the command line of an engine's own offline benchmark it
takes as long as the batch would, and writes the figures as that tool does.

` + sim.Usage(),
		Example: `  hcl sim --port 8000 --ttft 50ms --itl 10ms
  hcl sim --table 1:20ms/5ms,64:90ms/12ms
  hcl sim vllm serve deepseek-ai/DeepSeek-R1 --tensor-parallel-size 8
  hcl sim vllm bench throughput --model m --num-prompts 64 --input-len 32 --output-len 16

Exit codes: 0 ended by a signal, 1 failed, 2 the command line is wrong.`,
		DisableFlagParsing: true, // the engines' own spellings
		RunE: func(c *cobra.Command, args []string) error {
			for _, arg := range args {
				if arg == "-h" || arg == "--help" {
					return c.Help()
				}
			}
			if batch, ok, err := sim.BatchCommand(args); err != nil {
				return usage("%w\nSee 'hcl sim --help'.", err)
			} else if ok {
				return batch.Run(c.Context(), a.stderr)
			}
			cfg, listen, err := sim.Command(args)
			if err != nil {
				return usage("%w\nSee 'hcl sim --help'.", err)
			}
			return sim.Serve(c.Context(), cfg, listen, a.stderr)
		},
	}
}
