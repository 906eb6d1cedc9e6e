// Made by events.mjs from the golden files of the wire contract. Do not edit.
export {};
