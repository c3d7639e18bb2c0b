/**
 * The whole answer to settings that are wrong: code, setting, message and hint. The first line of each block of
 * test/config/recorded/refusals.txt has the settings; `teams:` is the file of INTAKE_CONFIG. After an intended change, run
 * `npx vitest run test/config/refusals.test.ts -u`, and read the difference before you commit it.
 */
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { readEnvFile, withEnvFile } from '../../src/config/settings.ts'
import { UsageError } from '../../src/core/errors.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const RECORDED = join(import.meta.dirname, 'recorded/refusals.txt')
const folder = makeFolder('config-refusals-')
afterAll(() => removeFolder(folder))

const ACCESS = { INTAKE_BASE_URL: 'https://f.example.com', INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's' }
const TEAM = { baseUrl: 'https://f.example.com', apiKey: 'k', apiSecret: 's' }

function envOf(line: string): NodeJS.ProcessEnv {
  const [word, rest] = line.split(/: (.*)/, 2) as [string, string]
  if (word === 'teams') {
    const teams = (JSON.parse(rest) as object[]).map((team) => ({ ...TEAM, ...team }))
    return file('INTAKE_CONFIG', JSON.stringify({ teams }))
  }
  if (word === 'file') return file('INTAKE_CONFIG', rest)
  if (word === 'settings file') return file('INTAKE_ENV_FILE', rest)
  return { ...(word === 'without access' ? {} : ACCESS), ...JSON.parse(rest.replaceAll('FOLDER', folder)) }
}

function file(name: string, text: string): NodeJS.ProcessEnv {
  const path = join(folder, 'file.json')
  writeFileSync(path, text)
  chmodSync(path, 0o600)
  return { [name]: path }
}

function refusalOf(env: NodeJS.ProcessEnv): string {
  try {
    readConfig(withEnvFile(env, readEnvFile(env, folder)))
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    const { code, variable, message, hint } = error
    return `${code}, ${variable}\n  ${message}\n  hint: ${hint}`.replaceAll(folder, 'FOLDER')
  }
  return 'accepted'
}

test('each mistake in the settings has its code, names its setting, and says how to write it', async () => {
  const lines = readFileSync(RECORDED, 'utf8').match(/^[a-z][a-z ]*: .*$/gm)!
  const text = lines.map((line) => `${line}\n  ${refusalOf(envOf(line))}\n`).join('\n')
  await expect(text).toMatchFileSnapshot(RECORDED)
})
