/**
 * Collects all output: of commands, to other services, and in the bookkeeping.
 *
 * Invariant: a line with the canary is reported with its source, so that a failure names its leak.
 */
import { createServer } from 'node:http'
import { expect } from 'vitest'
import { bookkeeping, SEEN } from '../e2e/support/canary.ts'
import type { Ended, Variables } from '../support/cli.ts'
import { runCommand } from '../support/run-command.ts'

export interface Witness {
  /** Texts that must be nowhere either: generated secrets. */
  readonly secrets: string[]
  heard(where: string, text: string): void
  /** Runs a command in this process: in a pipe, or on a terminal of the given width. */
  run(words: readonly string[], columns?: number): Promise<Ended>
  /** Fails with every line that contains the canary or a secret. */
  expectSilence(): Promise<void>
  /** How many lines came from that source. */
  times(where: string): number
  /** How many characters were searched. */
  amount(): number
}

/** `env` leads to the warehouse at `url`. */
export function openWitness(url: string, env: Variables): Witness {
  const said: { where: string; text: string }[] = []
  const secrets: string[] = []
  const heard = (where: string, text: string) => void said.push({ where, text })
  return {
    secrets,
    heard,
    async run(words, columns) {
      const ended = await runCommand(words, env, columns === undefined ? {} : { columns })
      heard(words.join(' '), ended.output)
      return ended
    },
    async expectSilence() {
      heard('intake_ops', await bookkeeping(url))
      const leaks = said.flatMap(({ where, text }) =>
        text
          .split('\n')
          .filter((line) => SEEN.test(line) || secrets.some((secret) => line.includes(secret)))
          .map((line) => `${where}: ${line.slice(0, 300)}`),
      )
      expect(leaks).toEqual([])
    },
    times: (place) => said.filter(({ where }) => where === place).length,
    amount: () => said.reduce((sum, { text }) => sum + text.length, 0),
  }
}

/** A receiver of alerts; its posts are searched too. */
export async function openAlertReceiver(
  witness: Witness,
): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer((request, response) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', () => {
      witness.heard('an alert', `${JSON.stringify(request.headers)}\n${Buffer.concat(pieces)}`)
      response.writeHead(204).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  return {
    url: `http://127.0.0.1:${port}/alerts`,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}
