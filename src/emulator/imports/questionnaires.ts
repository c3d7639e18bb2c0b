/**
 * Imports all FHIR Questionnaires of a folder and its sub-folders.
 *
 * Invariant: each .json, .yaml and .yml file is a form, or skipped as something else, or failed with the reason; a bad
 * file does not stop the others. Files are in the order of their paths, on every machine.
 */
import { readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import { parse as parseYaml } from 'yaml'
import type { Imported } from '../world/seeded/seed.ts'
import { isFhir } from './fhir-answers.ts'
import { formOf } from './questionnaire.ts'
import { readText } from './read-text.ts'
import { reasonOf } from './reason.ts'

export interface ImportedForms {
  readonly forms: Imported['forms'][number][]
  readonly questions: number
  readonly skipped: readonly string[]
  readonly failed: readonly { readonly file: string; readonly reason: string }[]
}

export function importQuestionnaires(folder: string): ImportedForms {
  const forms: Imported['forms'][number][] = []
  const skipped: string[] = []
  const failed: { file: string; reason: string }[] = []
  let questions = 0
  for (const file of filesIn(folder)) {
    try {
      const content = read(join(folder, file))
      if (!isFhir(content) || content.resourceType !== 'Questionnaire') {
        skipped.push(file)
        continue
      }
      const form = formOf(content)
      forms.push(form.build)
      questions += form.questions
    } catch (error) {
      failed.push({ file, reason: reasonOf(error) })
    }
  }
  return { forms, questions, skipped, failed }
}

function filesIn(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile() && /\.(json|ya?ml)$/i.test(entry.name))
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort((a, b) => (a < b ? -1 : 1))
}

function read(file: string): unknown {
  const text = readText(file)
  return file.toLowerCase().endsWith('.json') ? JSON.parse(text) : parseYaml(text, { logLevel: 'silent' })
}
