/** Runs the play of three hosts in a namespace of its own, and removes what it leaves. */

import { once } from 'node:events'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { whenInterrupted } from '../support/interruption.ts'
import type { Orders } from './inside.ts'
import { MOMENTS } from './moments.ts'
import { inside } from './namespaces.ts'
import { TROUBLES } from './play.ts'

export const COMBINATIONS = MOMENTS.flatMap((moment) => TROUBLES.map((trouble) => `${moment}/${trouble}`))

export interface HostsOptions extends Omit<Orders, 'folder'> {
  readonly onLine: (line: string) => void
}

/** True if nothing was wrong. */
export async function playHosts({ onLine, ...orders }: HostsOptions): Promise<boolean> {
  const folder = makeFolder('hosts-')
  // When run by root, Postgres is another user, who must be able to enter the folder.
  chmodSync(folder, 0o711)
  const program = join(import.meta.dirname, 'inside.ts')
  const words = [process.execPath, '--import', 'tsx', program, JSON.stringify({ ...orders, folder })]
  const child = inside(words, { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'close')
  const end = async () => {
    child.kill('SIGKILL')
    await ended
    removeFolder(folder)
  }
  const forget = whenInterrupted(end)
  let text = ''
  child.stdout!.setEncoding('utf8').on('data', (piece: string) => {
    const lines = `${text}${piece}`.split('\n')
    text = lines.pop()!
    for (const line of lines) onLine(line)
  })
  const [code] = (await ended) as [number | null]
  forget()
  removeFolder(folder)
  return code === 0
}
