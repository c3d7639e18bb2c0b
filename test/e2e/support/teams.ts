/** Many services in one run: a configuration file with a team for each, and one warehouse for all. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Emulator } from '../../../src/emulator/server.ts'
import type { Ended, Variables } from '../../support/cli.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { whenFileEnds } from '../../support/when-file-ends.ts'

export interface TeamEntry {
  readonly name: string
  readonly baseUrl: string
  readonly apiKey: string
  readonly apiSecret: string
  readonly paths?: Readonly<Record<string, string>>
}

const folders: string[] = []

whenFileEnds(() => {
  for (const folder of folders.splice(0)) removeFolder(folder)
})

/** `INTAKE_CONFIG` for these teams. */
export function configOf(teams: readonly TeamEntry[]): Variables {
  const folder = makeFolder('config-')
  folders.push(folder)
  const file = join(folder, 'teams.json')
  writeFileSync(file, JSON.stringify({ teams }))
  return { INTAKE_CONFIG: file }
}

/** The first team of production, under another name. */
export function teamOf(name: string, emulator: Emulator): TeamEntry {
  const { base_url, teams } = emulator.environments[0]!
  return { name, baseUrl: base_url, apiKey: teams[0]!.api_key, apiSecret: teams[0]!.api_secret }
}

export interface TeamFigures {
  readonly streams: Readonly<
    Record<
      string,
      Readonly<Record<string, number>> & { readonly status: string; readonly note: string | null }
    >
  >
  readonly dead_letters_waiting: number
}

/** Figures by team, from `backfill --json`. */
export function teamsIn({ stdout, stderr }: Ended): Readonly<Record<string, TeamFigures>> {
  if (stdout === '') throw new Error(`the run said nothing but: ${stderr}`)
  return (JSON.parse(stdout) as { teams: Record<string, TeamFigures> }).teams
}
