/**
 * Writes the resources of intake_fhir to files, as a FHIR bulk data export does: one NDJSON file for each type.
 *
 * Invariant: one snapshot and one team, because ids are unique within a team; `manifest.json` is written last.
 */
import { join } from 'node:path'
import { selectTeam } from '../../core/which-team.ts'
import type { Session } from '../../warehouse/connect.ts'
import { digestOf, type ExportedFile, prepareFolder, writeManifest } from './export.ts'
import { WRITERS } from './formats.ts'
import { beginSnapshot, openRows, type Row } from './query.ts'

/** The types, each with its view and the column that it is ordered by; those that others refer to come first. */
const TYPES = [
  { type: 'Patient', view: 'patient', key: 'patient_id' },
  { type: 'Questionnaire', view: 'questionnaire', key: 'form_id' },
  { type: 'QuestionnaireResponse', view: 'questionnaire_response', key: 'response_id' },
] as const

export interface FhirExportOptions {
  /** A folder that is missing or empty. */
  readonly folder: string
  /** Undefined for the only team that the reader sees. */
  readonly team: string | undefined
  /** Added to the manifest. */
  readonly about: Readonly<Record<string, unknown>>
  readonly signal: AbortSignal
}

/** The fields of a bulk data manifest, and ours. */
export interface FhirManifest {
  readonly transactionTime: string
  readonly request: string
  readonly requiresAccessToken: false
  readonly output: readonly { readonly type: string; readonly url: string; readonly count: number }[]
  readonly error: readonly []
  readonly format: 'fhir-ndjson'
  readonly team: string | null
  /** Rows in all files. */
  readonly rows: number
  readonly files: readonly ExportedFile[]
}

export async function exportFhir(session: Session, options: FhirExportOptions): Promise<FhirManifest> {
  const { folder, signal } = options
  const team = await teamOf(session, options.team)
  await prepareFolder(folder)
  await beginSnapshot(session)
  const { rows: times } = await session.client.query<{ at: string }>("select to_json(now()) #>> '{}' as at")
  const files: ExportedFile[] = []
  for (const { type, view, key } of TYPES) {
    const text = `select resource from intake_fhir.${view} where team_id = ${team?.id ?? 0} order by ${key}`
    const { portions } = await openRows(session, { from: { text }, dayColumn: null, asJson: false })
    let rows = 0
    async function* resources(): AsyncGenerator<Row> {
      for await (const portion of portions) {
        signal.throwIfAborted()
        rows += portion.length
        for (const row of portion) yield { ...row, json: row.values[0]! }
      }
    }
    const path = join(folder, `${type}.ndjson`)
    await WRITERS.ndjson(path, [], resources())
    files.push({ file: `${type}.ndjson`, rows, ...(await digestOf(path)) })
  }
  await session.client.query('commit')
  const manifest: FhirManifest = {
    transactionTime: times[0]!.at,
    request: 'intake-sync export --format fhir-ndjson',
    requiresAccessToken: false,
    output: TYPES.map(({ type }, at) => ({ type, url: files[at]!.file, count: files[at]!.rows })),
    error: [],
    format: 'fhir-ndjson',
    team: team?.name ?? null,
    rows: files.reduce((sum, file) => sum + file.rows, 0),
    files,
  }
  await writeManifest(folder, { ...options.about, ...manifest })
  return manifest
}

/** Null where the reader sees none. Throws `UsageError` where it sees several, or not the one that was named. */
async function teamOf({ client }: Session, name: string | undefined) {
  const { rows } = await client.query<{ id: number; name: string }>(
    'select team_id as id, team as name from intake_analytics.teams order by team_id',
  )
  if (rows.length === 0 && name === undefined) return null
  return selectTeam(rows, name, 'warehouse')
}
