/**
 * The forms of a seeded world. Together they use every question type, choices, a matrix of
 * several rows, a repeated block, titles that repeat, help texts and pages.
 */
import type { QuestionType } from '../records.ts'

export interface QuestionPlan {
  readonly type: QuestionType
  readonly subtype?: string
  readonly text: string
  readonly help?: string
  readonly page?: number
  readonly section?: number
  readonly choices?: readonly string[]
  readonly rows?: readonly string[]
  readonly columns?: readonly string[]
  /** Questions of each repetition of this block. */
  readonly members?: readonly QuestionPlan[]
}

export interface FormPlan {
  readonly name: string
  readonly text: string
  readonly questions: readonly QuestionPlan[]
}

const HOW_OFTEN = ['Never', 'Some days', 'Most days', 'Every day'] as const
const YES_NO = ['Yes', 'No'] as const

const intake: FormPlan = {
  name: 'Intake',
  text: 'Asked once, before the first visit.',
  questions: [
    { type: 'display_only', text: 'Welcome. This takes about ten minutes.' },
    { type: 'short_text', text: 'Name', help: 'As on your insurance card' },
    { type: 'date', text: 'Date of birth' },
    { type: 'single_choice', subtype: 'radio', text: 'Do you have a referral?', choices: YES_NO },
    {
      type: 'multiple_choice',
      text: 'Devices you use',
      choices: ['Cane', 'Walker', 'Wheelchair', 'Other'],
      page: 2,
    },
    { type: 'number', subtype: 'decimal', text: 'Weight (kg)', page: 2 },
    { type: 'long_text', text: 'What brings you here?', help: 'In your own words', page: 2, section: 2 },
    { type: 'short_text', text: 'Name', help: 'Of your general practitioner', page: 2, section: 2 },
    { type: 'checkbox', subtype: 'confirmation', text: 'I confirm that this is correct', page: 3 },
    { type: 'signature', text: 'Signature', page: 3 },
  ],
}

const mood: FormPlan = {
  name: 'Mood check',
  text: 'Nine short questions about the last fourteen days.',
  questions: [
    'Felt flat or without hope',
    'Found little joy in things you used to like',
    'Slept badly, or far more than usual',
    'Felt worn out',
    'Ate much less or much more than usual',
    'Thought badly of yourself',
    'Found it hard to follow a book or a film',
    'Moved or spoke so slowly that others noticed',
    'Had thoughts of harming yourself',
  ].map((text, index) => ({
    type: 'single_choice' as const,
    subtype: 'scale',
    text: `${index + 1}. ${text}`,
    choices: HOW_OFTEN,
  })),
}

const medication: FormPlan = {
  name: 'Medication list',
  text: 'What you take now; one line a medicine.',
  questions: [
    {
      type: 'matrix',
      text: 'Current medicines',
      rows: ['Morning', 'Noon', 'Evening'],
      columns: ['Medicine', 'Dose', 'Since'],
    },
    {
      type: 'matrix',
      subtype: 'single_choice',
      text: 'Side effects',
      rows: ['Headache', 'Nausea', 'Dizziness'],
      columns: ['None', 'Mild', 'Strong'],
    },
    {
      type: 'repeated_block',
      text: 'Past medicines',
      page: 2,
      members: [
        { type: 'short_text', text: 'Medicine', page: 2 },
        { type: 'single_choice', text: 'Did it help?', choices: YES_NO, page: 2 },
        { type: 'date', text: 'Stopped on', page: 2 },
      ],
    },
    { type: 'file', subtype: 'image', text: 'Photo of the packages', page: 2 },
  ],
}

const consent: FormPlan = {
  name: 'Consent to treat',
  text: 'Bitte lesen / Por favor, lea / Please read.',
  questions: [
    { type: 'display_only', subtype: 'html', text: '<p>You may withdraw <b>at any time</b>.</p>' },
    { type: 'checkbox', text: 'I agree to treatment' },
    { type: 'checkbox', text: 'I agree to reminders by SMS' },
    { type: 'datetime', text: 'Signed at', page: 2 },
    { type: 'signature', subtype: 'typed', text: 'Signature of patient or guardian', page: 2 },
  ],
}

const pain: FormPlan = {
  name: 'Pain diary — täglich',
  text: '',
  questions: [
    { type: 'time', text: 'Time' },
    { type: 'number', subtype: 'integer', text: 'Pain from 0 to 10' },
    { type: 'multiple_choice', text: 'Where?', choices: ['Head', 'Neck', 'Back, lower', 'Knee "left"', ''] },
    { type: 'long_text', text: '', help: 'Anything else' },
  ],
}

const insurance: FormPlan = {
  name: 'Insurance',
  text: 'Both sides of the card, please.',
  questions: [
    { type: 'short_text', subtype: 'email', text: 'First Name' },
    {
      type: 'single_choice',
      subtype: 'dropdown',
      text: 'Payer',
      choices: ['PPO', 'HMO', 'Medicare', 'Self-pay', 'HMO'],
    },
    { type: 'file', text: 'Card, front' },
    { type: 'file', text: 'Card, back' },
    { type: 'date', text: 'Valid until' },
  ],
}

/** The first six contain every question type of the service, the first two the most difficult ones. */
export const FORM_PLANS: readonly FormPlan[] = [intake, medication, mood, consent, pain, insurance]
